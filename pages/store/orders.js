/* What I have won. */

import { ask, session, Unreachable } from '../shared/api.js';
import { every } from '../shared/clock.js';
import { h } from '../shared/dom.js';
import { text } from '../shared/text.js';
import { loginPath, problemText, titled } from './frame.js';
import { orderCard, siteTerms } from './order.js';

const PAGE = 20;

/* Names of sales, each asked for once. */
async function salesOf(orders, known, signal) {
  const missing = [...new Set(orders.map((order) => order.sale))].filter((id) => !known.has(id));
  await Promise.all(missing.map(async (id) => {
    const answer = await ask('GET', `/v1/sales/${id}`, { signal });
    known.set(id, answer.ok ? answer.body : null);
  }));
}

export function ordersView(place, _, signal) {
  titled(text('orders'));
  const body = h('div', { class: 'stack' });
  place.append(h('div', { class: 'stack narrow-wide' }, h('h1', { tabindex: '-1' }, text('orders')), body));
  const user = session();
  if (user === null || user.role !== 'customer') {
    body.append(h('div', { class: 'card stack' }, h('p', {}, text(user === null ? 'orders.login' : 'orders.role')),
      h('p', {}, h('a', { class: 'button primary', href: loginPath() }, text('login')))));
    return;
  }
  body.append(h('p', { class: 'soft' }, text('loading')));
  const known = new Map();
  let cards = [];
  every(500, signal, () => { for (const card of cards) card.tick(); });

  let busy = false;
  let again = false;
  const load = async (cursor) => {
    if (busy) { // two presses are one; what has changed is looked at afterwards
      again ||= cursor === null;
      return;
    }
    busy = true;
    const more = cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`;
    try {
      const [answer, terms] = await Promise.all([ask('GET', `/v1/orders?limit=${PAGE}${more}`, { signal }), siteTerms()]);
      if (!answer.ok) throw new Unreachable(problemText(answer.code));
      await salesOf(answer.body.items, known, signal);
      if (signal.aborted) return;
      show(answer.body, terms, cursor === null);
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      if (signal.aborted) return;
      body.replaceChildren(h('p', { class: 'notice warn', role: 'status' }, text('offline')),
        h('p', {}, h('button', { type: 'button', on: { click: () => load(null) } }, text('again'))));
    } finally {
      busy = false;
    }
    if (again && !signal.aborted) {
      again = false;
      await load(null);
    }
  };
  const show = (page, terms, first) => {
    if (first) cards = [];
    const fresh = page.items.map((order) => orderCard(order, { sale: known.get(order.sale), terms, changed: () => load(null) }));
    cards.push(...fresh);
    if (cards.length === 0) {
      body.replaceChildren(h('div', { class: 'card stack' }, h('p', {}, text('orders.none')), h('p', {}, h('a', { href: '/' }, text('to.sales')))));
      return;
    }
    const button = page.next === null ? [] : [h('p', {}, h('button', { type: 'button', on: { click: () => load(page.next) } }, text('more')))];
    body.replaceChildren(...cards.map((card) => card.element), ...button);
  };
  return load(null);
}
