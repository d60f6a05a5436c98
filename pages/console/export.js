/* The orders of a sale as a file for a spreadsheet, put together here, page by page. */

import { ask, Unreachable } from '../shared/api.js';
import { pause } from '../shared/clock.js';

const AGAIN_MS = 2000;
const AGAIN_MS_MAX = 30000;
const TRIES_MAX = 10;
const COLUMNS = ['no', 'sale', 'buyer', 'units', 'amount', 'state', 'won_at', 'pay_by'];

/* A buyer is named by whoever likes: what a spreadsheet would take for a formula is made a text. */
export function cell(value) {
  const text = value === null ? '' : String(value);
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) || safe !== text ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/* One page. Where the shop is busy, finds us too fast or is not to be reached, it is asked again when it says so: a long list is
 * not begun anew for that. */
async function page(path, signal) {
  for (let tries = 1; ; tries += 1) {
    let waitMs = AGAIN_MS;
    try {
      const answer = await ask('GET', path, { signal });
      if ((answer.status !== 429 && answer.status !== 503) || tries === TRIES_MAX) return answer;
      waitMs = Math.min(answer.retryMs || AGAIN_MS, AGAIN_MS_MAX);
    } catch (error) {
      if (!(error instanceof Unreachable) || signal.aborted || tries === TRIES_MAX) throw error;
    }
    await pause(waitMs, signal);
  }
}

/* told(orders so far). The whole text, or the answer that was none. */
export async function ordersText(sale, told, signal) {
  const lines = [COLUMNS.join(',')];
  let cursor = null;
  do {
    const answer = await page(`/v1/orders?sale=${sale}&limit=200${cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`}`, signal);
    if (!answer.ok) return answer;
    for (const order of answer.body.items) lines.push(COLUMNS.map((name) => cell(order[name])).join(','));
    cursor = answer.body.next;
    told(lines.length - 1);
  } while (cursor !== null);
  return { ok: true, text: `${lines.join('\r\n')}\r\n` };
}

export function save(name, text) {
  // The mark tells spreadsheets that it is UTF-8.
  const address = URL.createObjectURL(new Blob(['\ufeff', text], { type: 'text/csv;charset=utf-8' }));
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}
