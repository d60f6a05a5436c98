/* The last lines that the server has logged, the newest below, as they come. */

import { ask } from '../shared/api.js';
import { h } from '../shared/dom.js';
import { language, text } from '../shared/text.js';
import { field, heading, outcome, repeat } from './parts.js';

const KINDS = { debug: '', info: '', warn: 'warn', error: 'bad' };
const LINES = 200;

export function logView(place, parameters, signal) {
  const told = outcome();
  const level = field(text('log.level'), h('select', { name: 'level' }, ['debug', 'info', 'warn', 'error'].map((one) => h('option', { value: one, selected: one === 'info' }, text(`log.${one}`)))));
  const follow = h('input', { type: 'checkbox', id: 'follow', checked: true });
  const list = h('ol');
  const scroll = h('div', { class: 'log', tabindex: 0, role: 'log', 'aria-live': 'off', 'aria-label': text('menu.log') }, list);
  let last = 0;

  const time = new Intl.DateTimeFormat(language(), { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23' });
  const line = (one) => h('li', { class: KINDS[one.level], 'data-level': one.level },
    h('time', { datetime: one.at }, time.format(new Date(one.at))), h('span', { class: 'level' }, one.level),
    h('span', { class: 'room' }, one.room), h('bdi', { class: 'message', lang: 'en' }, one.message));
  const load = async () => {
    const wanted = level.input.value;
    const answer = await ask('GET', `/v1/log?limit=${LINES}&level=${wanted}`, { signal });
    if (wanted !== level.input.value) return;
    if (!answer.ok) {
      told.bad(answer);
      return;
    }
    told.clear();
    const fresh = answer.body.items.filter((one) => Number(one.id) > last).reverse();
    // A server that has started anew counts from one.
    if (answer.body.items.length > 0 && Number(answer.body.items[0].id) < last) {
      last = 0;
      list.replaceChildren();
      return;
    }
    if (fresh.length === 0) return;
    last = Number(fresh.at(-1).id);
    list.append(...fresh.map(line));
    while (list.children.length > LINES * 2) list.firstChild.remove();
    if (follow.checked) scroll.scrollTop = scroll.scrollHeight;
  };
  place.append(heading(text('menu.log')), h('div', { class: 'filters' }, level.place, h('label', { class: 'row check' }, follow, text('log.follow'))), told.place,
    h('section', { class: 'card flush' }, scroll));
  const again = repeat(2000, signal, told, load);
  level.input.addEventListener('change', () => {
    last = 0;
    list.replaceChildren();
    again();
  });
}
