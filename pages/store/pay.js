/* The demonstration provider: says "paid" or "declined" and moves no money. It is there only where the server was started for it. */

import { ask, session, Unreachable } from '../shared/api.js';
import { every } from '../shared/clock.js';
import { h, said, say } from '../shared/dom.js';
import { clockText, money } from '../shared/format.js';
import { text } from '../shared/text.js';
import { loginPath, problemText, titled } from './frame.js';
import { orderChip, payLeft, siteTerms } from './order.js';

async function found(no, signal) {
  const [answer, terms] = await Promise.all([ask('GET', `/v1/orders/${encodeURIComponent(no)}`, { signal }), siteTerms()]);
  if (!answer.ok) return { problem: problemText(answer.code) };
  const sale = await ask('GET', `/v1/sales/${answer.body.sale}`, { signal });
  return { order: answer.body, sale: sale.ok ? sale.body : null, terms };
}

export function payView(place, { order: no }, signal) {
  titled(text('pay.title'));
  const box = h('div', { class: 'card narrow stack pay' });
  place.append(box);
  const line = (words) => box.replaceChildren(h('h1', {}, text('pay.title')), h('p', {}, words), h('p', {}, h('a', { href: '/orders' }, text('to.orders'))));
  if (session() === null) {
    box.replaceChildren(h('h1', {}, text('pay.title')), h('p', {}, text('orders.login')), h('p', {}, h('a', { class: 'button primary', href: loginPath() }, text('login'))));
    return;
  }
  box.append(h('h1', {}, text('pay.title')), h('p', { class: 'soft' }, text('loading')));
  let tick = () => {};
  every(500, signal, () => tick());

  const draw = ({ order, sale, terms }, outcome) => {
    const left = h('p', { class: 'pay-left' });
    const trouble = h('p', { class: `notice ${outcome?.good ? 'good' : 'warn'}`, role: 'alert', tabindex: '-1', id: 'pay-outcome', hidden: !outcome }, outcome?.words);
    const tell = (status) => settle(order, status, trouble);
    const open = order.state === 'held' && terms.demo_payments;
    box.replaceChildren(
      terms.demo_payments ? h('p', { class: 'demo-stripe' }, text('pay.demo')) : '',
      h('h1', {}, text('pay.title')),
      h('div', { class: 'row between' }, sale ? h('a', { href: `/s/${order.sale}` }, said(sale.name)) : h('span', {}, text('order.no', { no: order.no })), orderChip(order)),
      h('p', { class: 'pay-amount number' }, money(order.amount, sale?.currency ?? null) ?? text('free')),
      h('p', { class: 'soft' }, text('order.no', { no: order.no })),
      left, trouble,
      ...(open ? [
        h('p', { class: 'soft' }, text('pay.demo.more')),
        h('button', { type: 'button', class: 'primary big', id: 'pay-now', on: { click: () => tell('succeeded') } }, text('pay.now')),
        h('button', { type: 'button', id: 'pay-fail', on: { click: () => tell('failed') } }, text('pay.fail'))] : []),
      order.state === 'held' && !terms.demo_payments ? h('p', {}, text('pay.elsewhere')) : '',
      h('p', {}, h('a', { href: '/orders' }, text('to.orders'))));
    tick = () => {
      left.hidden = order.state !== 'held' || order.pay_by === null;
      if (!left.hidden) say(left, payLeft(order) > 0 ? text('pay.left', { time: clockText(payLeft(order)) }) : text('pay.late'));
    };
    tick();
  };
  const load = async (outcome) => {
    try {
      const seen = await found(no, signal);
      if (signal.aborted) return;
      if (seen.problem) line(seen.problem);
      else draw(seen, outcome);
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      if (!signal.aborted) line(text('offline'));
    }
  };
  /* An order has one payment here, so that asking again after a lost answer pays once. */
  const settle = async (order, status, trouble) => {
    for (const button of box.querySelectorAll('button')) button.disabled = true;
    try {
      const answer = await ask('POST', `/v1/orders/${order.no}/demo_payment`, { body: { status }, signal });
      const words = answer.ok ? text(status === 'failed' ? 'pay.failed' : `pay.done.${answer.body.state}`) : problemText(answer.code);
      await load({ words, good: answer.ok && answer.body.state === 'paid' });
      box.querySelector('#pay-outcome')?.focus(); // the button that had the focus is gone
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      if (signal.aborted) return;
      for (const button of box.querySelectorAll('button')) button.disabled = false;
      say(trouble, text('pay.unheard'));
      trouble.hidden = false;
    }
  };
  return load();
}
