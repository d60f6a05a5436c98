/* The limits of the guard, each by a slider and as a number. What is let go of counts from the next request on. */

import { ask } from '../shared/api.js';
import { h, say } from '../shared/dom.js';
import { count } from '../shared/format.js';
import { text } from '../shared/text.js';
import { announce, button, field, heading, heard, outcome, problemText } from './parts.js';

const SCOPES = ['global', 'user', 'ip'];
const CLASSES = ['grab', 'query', 'write', 'login', 'register'];
const MOST = 10000000;
const STEPS = 20; // of a slider for each power of ten
const TOP = Math.log10(MOST) * STEPS;

/* A slider is logarithmic. Of a rate its right end is "no limit", which is 0. */
export function position(value, endless) {
  if (value === 0) return endless ? TOP + 1 : 0;
  return Math.round(Math.log10(value) * STEPS);
}

export function valueAt(at, endless) {
  if (at > TOP) return endless ? 0 : MOST;
  const exact = 10 ** (at / STEPS);
  const power = 10 ** Math.max(0, Math.floor(Math.log10(exact)) - 1);
  return Math.max(1, Math.round(exact / power) * power);
}

/* One limit. send(name, value) puts it and tells what is in force then. */
function limitRow(name, endless, unit, send) {
  const label = text(unit);
  const range = h('input', { type: 'range', min: 0, max: endless ? TOP + 1 : TOP, step: 1 });
  const number = h('input', { inputmode: 'numeric', autocomplete: 'off', class: 'number', 'aria-label': text('limits.exact', { label }), name });
  const shown = h('output', { class: 'number' });
  const one = field(label, range);
  range.dataset.limit = name;
  let value = 0;
  let moving = false; // under somebody's hand: what comes meanwhile is shown when they let go
  const words = (of) => (of === 0 && endless ? text('limits.none') : count(of));
  const show = (of) => {
    range.value = position(of, endless);
    range.setAttribute('aria-valuetext', words(of));
    number.value = of === 0 ? '' : of;
    number.placeholder = endless ? text('limits.none') : '';
    say(shown, words(of));
  };
  for (const input of [range, number]) {
    input.addEventListener('input', () => { moving = true; });
    for (const kind of ['change', 'blur']) input.addEventListener(kind, () => { moving = false; });
  }
  range.addEventListener('input', () => {
    const of = valueAt(Number(range.value), endless);
    range.setAttribute('aria-valuetext', words(of));
    number.value = of === 0 ? '' : of;
    say(shown, words(of));
  });
  range.addEventListener('change', () => send(name, valueAt(Number(range.value), endless)));
  number.addEventListener('change', () => {
    const given = number.value.trim().replaceAll(/[\s,_]/g, '');
    if (/^\d+$/.test(given)) send(name, Number(given));
    else if (given === '' && endless) send(name, 0);
    else show(value);
  });
  one.place.append(shown, number);
  one.place.classList.add('limit');
  return { name, place: one.place, set(of) { value = of; if (!moving) show(of); } };
}

export async function limitsView(place, parameters, signal) {
  const told = outcome();
  const rows = [];
  let first = null;
  const show = (limits) => { for (const one of rows) one.set(limits[one.name]); };
  let turn = Promise.resolve();
  let waiting = 0;
  /* One after the other, so that the last one counts; and only then is it shown, or a slider would jump back under the hand. */
  const send = (body) => {
    waiting += 1;
    turn = turn.catch(() => null).then(() => put(body)).finally(() => { waiting -= 1; });
    return turn;
  };
  const put = async (body) => {
    const answer = await heard(told, signal, ask('PUT', '/v1/limits', { body }));
    if (answer === null || !answer.ok) {
      if (answer !== null) told.bad(answer);
      const now = await heard(told, signal, ask('GET', '/v1/limits', {}));
      if (now?.ok) show(now.body);
      return;
    }
    if (waiting > 1) return;
    show(answer.body);
    const names = Object.keys(body);
    told.good(names.length === 1 ? text('limits.set', { name: names[0], value: count(answer.body[names[0]]) }) : text('limits.reset_done'));
    undo.hidden = JSON.stringify(answer.body) === JSON.stringify(first);
  };
  const one = (name, endless, unit) => {
    rows.push(limitRow(name, endless, unit, (of, value) => send({ [of]: value })));
    return rows.at(-1).place;
  };
  const undo = button(text('limits.undo'), () => send(first), { hidden: true, id: 'undo' });
  place.append(heading(text('menu.limits'), undo), h('p', { class: 'soft lead' }, text('limits.lead')), told.place);

  const answer = await ask('GET', '/v1/limits', { signal });
  if (!answer.ok) {
    place.append(h('p', { class: 'notice bad', role: 'alert' }, problemText(answer)));
    return;
  }
  first = answer.body;
  for (const scope of SCOPES) {
    const groups = CLASSES.filter((kind) => `${scope}_${kind}_per_s` in first).map((kind) =>
      h('fieldset', { class: 'limit-pair' }, h('legend', {}, text(`limits.class.${kind}`)),
        one(`${scope}_${kind}_per_s`, true, 'limits.per_s'), one(`${scope}_${kind}_burst`, false, 'limits.burst')));
    place.append(h('section', { class: 'card stack', id: `scope-${scope}` }, h('h2', {}, text(`limits.scope.${scope}`)),
      h('p', { class: 'soft' }, text(`limits.scope.${scope}.why`)), h('div', { class: 'limit-grid' }, groups)));
  }
  place.append(h('section', { class: 'card stack' }, h('h2', {}, text('limits.connections')), h('p', { class: 'soft' }, text('limits.connections.why')),
    one('connections_per_ip', true, 'limits.connections_per_ip')));
  show(first);
  announce(text('menu.limits'));
}
