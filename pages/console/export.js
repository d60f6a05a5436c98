/* The orders of a sale as a file for a spreadsheet, put together here, page by page. */

import { ask } from '../shared/api.js';

const COLUMNS = ['no', 'sale', 'buyer', 'units', 'amount', 'state', 'won_at', 'pay_by'];

/* A buyer is named by whoever likes: what a spreadsheet would take for a formula is made a text. */
export function cell(value) {
  const text = value === null ? '' : String(value);
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) || safe !== text ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/* told(orders so far). The whole text, or the answer that was none. */
export async function ordersText(sale, told, signal) {
  const lines = [COLUMNS.join(',')];
  let cursor = null;
  do {
    const answer = await ask('GET', `/v1/orders?sale=${sale}&limit=200${cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`}`, { signal });
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
