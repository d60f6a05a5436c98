/* How a sale stands, as a buyer sees it: a word, a countdown, what is left. */

import { clockNow } from '../shared/clock.js';
import { h, say } from '../shared/dom.js';
import { clockText, count } from '../shared/format.js';
import { text } from '../shared/text.js';

const DAY_MS = 86400000;
const CHIPS = { upcoming: 'accent', open: 'good', paused: 'warn', sold_out: 'bad', closed: '' };

/* The state by the clock: a sale opens and closes by its time, also between two looks at it. */
export function stateNow(sale) {
  const now = clockNow();
  if (sale.state === 'closed' || (sale.closes_at !== null && now >= Date.parse(sale.closes_at))) return 'closed';
  if (sale.state === 'paused') return 'paused';
  if (now < Date.parse(sale.opens_at)) return 'upcoming';
  return sale.available > 0 ? 'open' : 'sold_out';
}

export function chip(state) {
  return h('span', { class: `chip ${CHIPS[state]}`, 'data-chip': state }, text(`state.${state}`));
}

/* Time until a moment, in words that fit a line. */
export function countdownText(ms) {
  const days = Math.floor(ms / DAY_MS);
  return days > 0 ? text('countdown.days', { days, clock: clockText(ms - days * DAY_MS) }) : clockText(ms);
}

/* A bar of what is left, with what is held for others beside it. update(sale) moves it. */
export function stockBar() {
  const words = h('p', { class: 'stock-words' });
  const more = h('p', { class: 'soft stock-more' });
  const bar = h('div', { class: 'bar', role: 'progressbar', 'aria-valuemin': '0' }, h('span', { class: 'bar-left' }), h('span', { class: 'bar-held' }));
  const element = h('div', { class: 'stock' }, words, bar, more);
  const update = (sale) => {
    const share = (number) => (sale.offered > 0 ? number / sale.offered : 0);
    say(words, text('left', { left: count(sale.available), of: count(sale.offered) }));
    say(more, sale.held > 0 ? text('held', { held: count(sale.held) }) : '');
    bar.style.setProperty('--left', String(share(sale.available)));
    bar.style.setProperty('--held', String(share(sale.held)));
    bar.setAttribute('aria-label', text('left.label'));
    bar.setAttribute('aria-valuemax', String(sale.offered));
    bar.setAttribute('aria-valuenow', String(sale.available));
    bar.setAttribute('aria-valuetext', words.textContent);
  };
  return { element, update };
}
