/* Every sale: now, soon and over. */

import { ask, listed, Unreachable } from '../shared/api.js';
import { clockNow, either, every, pauseUnseen } from '../shared/clock.js';
import { h, said, say } from '../shared/dom.js';
import { money, moment } from '../shared/format.js';
import { text } from '../shared/text.js';
import { titled } from './frame.js';
import { poster } from './poster.js';
import { chip, countdownText, stateNow, stockBar } from './stock.js';

const REFRESH_MS = 15000;
/* How many of each state are asked for at first; what is over is many, and of little use. */
const STATES = { open: 60, paused: 20, upcoming: 60, sold_out: 24, closed: 12 };
const SECTIONS = [['now', ['open', 'paused']], ['soon', ['upcoming']], ['over', ['sold_out', 'closed']]];

function price(sale) {
  return money(sale.price, sale.currency) ?? text('free');
}

function card(sale, ticks) {
  const state = stateNow(sale);
  const line = h('p', { class: 'soft card-line' });
  const bar = stockBar();
  bar.update(sale);
  ticks.push(() => {
    if (state === 'upcoming') say(line, text('opens.in', { time: countdownText(Date.parse(sale.opens_at) - clockNow()) }));
    if (state === 'closed' && sale.closes_at !== null) say(line, text('closed.at', { time: moment(sale.closes_at) }));
  });
  return h('li', {}, h('a', { class: 'sale-card', href: `/s/${sale.id}`, 'data-sale': sale.id },
    poster(sale),
    h('div', { class: 'sale-card-text' },
      h('div', { class: 'row' }, chip(state), h('span', { class: 'price' }, price(sale))),
      h('h3', {}, said(sale.name)),
      line,
      state === 'open' ? bar.element : null)));
}

function byTime(state) {
  const at = (sale) => Date.parse(sale.opens_at);
  return state === 'soon' ? (a, b) => at(a) - at(b) : (a, b) => at(b) - at(a);
}

/* times: by section, how many times as many are wanted. Has the sales, and the states of which there are more. */
async function salesOf(times, signal) {
  const states = SECTIONS.flatMap(([name, names]) => names.map((state) => [state, STATES[state] * times[name]]));
  const answers = await Promise.all(states.map(([state, most]) => listed(`/v1/sales?state=${state}`, { limit: Math.min(most, 200), most, signal })));
  const bad = answers.find((answer) => !answer.ok);
  if (bad) throw new Unreachable(bad.code);
  // A sale that changes its state meanwhile may be on two lists.
  const sales = [...new Map(answers.flatMap((answer) => answer.items).map((sale) => [sale.id, sale])).values()];
  return { sales, more: new Set(states.filter((_, i) => answers[i].more).map(([state]) => state)) };
}

/* The lists tell no time; it is asked for beside them. */
async function refresh(times, signal) {
  const [found] = await Promise.all([salesOf(times, signal), ask('GET', '/pages.json', { signal })]);
  return found;
}

export function listView(place, _, signal) {
  titled(text('sales'));
  const body = h('div', { class: 'stack wide' }, h('p', { class: 'soft' }, text('loading')));
  const trouble = h('p', { class: 'notice warn', role: 'status', hidden: true });
  place.append(h('div', { class: 'hero' }, h('h1', {}, text('hero')), h('p', { class: 'soft' }, text('hero.more'))), trouble, body);
  let ticks = [];
  let sales = null;
  let more = new Set();
  let wake = () => {};
  const times = { now: 1, soon: 1, over: 1 };
  const moreButton = (name) => {
    const click = () => {
      times[name] *= 2;
      wake();
    };
    return h('p', {}, h('button', { type: 'button', 'data-more': name, on: { click } }, text('more')));
  };

  const draw = () => {
    ticks = [];
    const sections = SECTIONS.map(([name, states]) => {
      const some = sales.filter((sale) => states.includes(stateNow(sale))).sort(byTime(name));
      if (some.length === 0 && name !== 'now') return null;
      return h('section', { 'aria-labelledby': `section-${name}`, 'data-section': name },
        h('h2', { id: `section-${name}` }, text(`section.${name}`)),
        some.length > 0 ? h('ul', { class: 'grid' }, some.map((sale) => card(sale, ticks))) : h('p', { class: 'soft' }, text('section.none')),
        states.some((state) => more.has(state)) ? moreButton(name) : null);
    });
    const { sale, more: pressed } = document.activeElement?.dataset ?? {};
    body.replaceChildren(...sections.filter(Boolean));
    if (sale) body.querySelector(`[data-sale="${CSS.escape(sale)}"]`)?.focus({ preventScroll: true });
    if (pressed) body.querySelector(`[data-more="${pressed}"]`)?.focus({ preventScroll: true });
    for (const tick of ticks) tick();
  };
  const states = () => (sales ?? []).map((sale) => stateNow(sale)).join();
  let drawn = '';
  every(500, signal, () => {
    if (sales !== null && states() !== drawn) {
      drawn = states();
      draw();
    }
    for (const tick of ticks) tick();
  });

  (async () => {
    while (!signal.aborted) {
      const asked = new AbortController(); // before asking, so that what is pressed meanwhile is not lost
      wake = () => asked.abort();
      try {
        if (!document.hidden || sales === null) {
          ({ sales, more } = await refresh(times, signal));
          drawn = states();
          draw();
        }
        trouble.hidden = true;
      } catch (error) {
        if (!(error instanceof Unreachable)) throw error;
        if (signal.aborted) return;
        say(trouble, text('offline'));
        trouble.hidden = false;
      }
      await pauseUnseen(trouble.hidden ? REFRESH_MS * (0.8 + Math.random() * 0.4) : 3000, either(signal, asked.signal));
    }
  })();
}
