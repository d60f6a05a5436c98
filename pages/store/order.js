/* One order as its buyer sees it: what it is, how long there is to pay, paying and cancelling. */

import { ask, Unreachable } from '../shared/api.js';
import { clockNow } from '../shared/clock.js';
import { h, said, say } from '../shared/dom.js';
import { clockText, count, money, moment } from '../shared/format.js';
import { text } from '../shared/text.js';
import { announce, problemText } from './frame.js';

/* An order whose time is over is asked for until it says so, and not all the time. */
const LATE_MS = 3000;
const LATE_AGAIN_MS = 5000;
const lateAsked = new Map();
const CHIPS = { held: 'warn', paid: 'good', cancelled: '', expired: '', refund_due: 'bad' };

let site = null;

/* Whether the server has said so. */
export function siteTermsKnown() {
  return site !== null;
}

/* What this server lets buyers do: { demo_payments }. Asked until it has answered. */
export async function siteTerms() {
  if (site === null) {
    const answer = await ask('GET', '/pages.json');
    if (answer.ok) site = answer.body;
  }
  return site ?? { demo_payments: false };
}

export function orderChip(order) {
  return h('span', { class: `chip ${CHIPS[order.state]}`, 'data-order-state': order.state }, text(`order.${order.state}`));
}

export function payLeft(order) {
  return Date.parse(order.pay_by) - clockNow();
}

/* A question before what cannot be taken back. Resolves to whether it was answered with yes. */
function sure(question, yes) {
  return new Promise((done) => {
    const dialog = h('dialog', { 'aria-labelledby': 'sure-question' },
      h('form', { method: 'dialog', class: 'stack' },
        h('p', { id: 'sure-question' }, question),
        h('div', { class: 'row' }, h('button', { value: 'no', autofocus: true }, text('keep')), h('button', { value: 'yes', class: 'danger' }, yes))));
    dialog.addEventListener('close', () => { dialog.remove(); done(dialog.returnValue === 'yes'); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

async function cancel(order, changed, trouble) {
  if (!await sure(text('cancel.sure', { no: order.no }), text('cancel.yes'))) return;
  try {
    const answer = await ask('POST', `/v1/orders/${order.no}/cancel`, { body: {} });
    if (answer.ok) announce(text('cancel.done'));
    else say(trouble, problemText(answer.code));
    trouble.hidden = answer.ok;
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    say(trouble, text('offline'));
    trouble.hidden = false;
  }
  await changed();
  document.querySelector('#grab, main h1')?.focus(); // the button that had the focus is gone
}

/* { element, tick }: tick moves its countdown. sale: null where it is not known. here: it stands on the page of its sale. actions: whether the
 * buyer is known and can act. changed: called when it is not as it was; a promise of having drawn it. */
export function orderCard(order, { sale, terms, changed, here = false, actions = true }) {
  const left = h('p', { class: 'pay-left', hidden: true });
  const trouble = h('p', { class: 'notice bad', role: 'alert', hidden: true });
  const buttons = h('div', { class: 'row' });
  if (order.state === 'held' && actions) {
    if (terms.demo_payments) buttons.append(h('a', { class: 'button primary', href: `/pay/${order.no}`, 'data-pay': order.no }, text('pay')));
    buttons.append(h('button', { type: 'button', class: 'danger', 'data-cancel': order.no, on: { click: () => cancel(order, changed, trouble) } }, text('cancel')));
  }
  const amount = money(order.amount, sale?.currency ?? null);
  const named = sale !== null && !here;
  const facts = [named ? text('order.no', { no: order.no }) : null, text('order.units', { units: count(order.units) }), amount, moment(order.won_at)];
  const element = h('article', { class: 'card order stack', 'data-order': order.no },
    h('div', { class: 'row between' },
      h('h2', {}, named ? h('a', { href: `/s/${order.sale}` }, said(sale.name)) : text('order.no', { no: order.no })), orderChip(order)),
    h('p', { class: 'soft facts' }, facts.filter(Boolean).join(' · ')), left, trouble, buttons);
  const tick = () => {
    const held = order.state === 'held' && order.pay_by !== null;
    left.hidden = !held;
    if (!held) return;
    const ms = payLeft(order);
    say(left, ms > 0 ? text('pay.left', { time: clockText(ms) }) : text('pay.late'));
    const now = performance.now();
    if (ms < -LATE_MS && now - (lateAsked.get(order.no) ?? -Infinity) > LATE_AGAIN_MS) {
      lateAsked.set(order.no, now);
      changed();
    }
  };
  tick();
  return { element, tick };
}
