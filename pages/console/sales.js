/* The sales: a seller's own, or for operators everyone's. */

import { session } from '../shared/api.js';
import { h } from '../shared/dom.js';
import { count, moment } from '../shared/format.js';
import { text } from '../shared/text.js';
import { field, heading, named, outcome, paged, repeat, row, stateChip, table } from './parts.js';

const PAGE = 50;
const STATES = ['open', 'upcoming', 'paused', 'sold_out', 'closed'];

/* What is left, held and sold of a sale, as shares of a bar. */
export function stockBar(sale) {
  const share = (units) => (sale.offered > 0 ? units / sale.offered : 0);
  return h('span', { class: 'stock', 'aria-hidden': 'true', vars: { '--sold': share(sale.sold), '--held': share(sale.held) } },
    h('span', { class: 'sold' }), h('span', { class: 'held' }));
}

export function salesView(place, parameters, signal) {
  const who = session();
  const admin = who.role === 'admin';
  const told = outcome();
  const columns = [['sale.name', 'wide'], ...(admin ? [['sale.seller', '']] : []), ['sale.state', ''], ['sale.available', 'end'], ['sale.stock', 'bar'],
    ['sale.held', 'end'], ['sale.sold', 'end'], ['sale.opens_at', 'when']];
  const grid = table(text('menu.sales'), columns, text('sales.none'));
  const state = field(text('sale.state'), h('select', { id: 'state' }, h('option', { value: '' }, text('all')), STATES.map((one) => h('option', { value: one }, text(`state.${one}`)))));
  const seller = field(text('sale.seller'), h('input', { type: 'search', maxlength: 64, autocomplete: 'off' }));

  const path = (cursor) => {
    const query = new URLSearchParams({ limit: PAGE });
    const of = admin ? seller.input.value : who.name;
    if (of !== '') query.set('seller', of);
    if (state.input.value !== '') query.set('state', state.input.value);
    if (cursor) query.set('cursor', cursor);
    return `/v1/sales?${query}`;
  };
  const line = (sale) => row(columns,
    h('a', { href: `/console/sales/${sale.id}` }, named(sale.name)), ...(admin ? [named(sale.seller)] : []), stateChip(sale.state),
    count(sale.available), stockBar(sale), count(sale.held), count(sale.sold), moment(sale.opens_at));
  const list = paged(grid, told, signal, path, line);
  const load = async () => {
    if (await list.load()) told.clear();
  };

  place.append(
    heading(text('menu.sales'), h('a', { class: 'button primary', href: '/console/sales/new', id: 'new' }, text('sales.new'))),
    h('div', { class: 'filters' }, state.place, admin && seller.place), told.place,
    h('section', { class: 'card flush' }, grid.place), h('div', { class: 'row' }, list.more));
  // Whoever has asked for more pages reads, and is not to lose the place.
  const again = repeat(3000, signal, told, () => (list.items.length <= PAGE ? load() : undefined));
  for (const input of [state.input, seller.input]) {
    input.addEventListener('input', () => {
      list.items = [];
      again();
    });
  }
}
