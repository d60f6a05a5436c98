/* The terms of a sale, each with what it means. The same form makes a sale and changes one; what may not change any more is shown and
 * left alone. */

import { ask, listed, session } from '../shared/api.js';
import { h } from '../shared/dom.js';
import { routeGo } from '../shared/route.js';
import { text } from '../shared/text.js';
import { act, announce, field, heading, outcome, problemText } from './parts.js';
import { whenInput, whenRead, whenWrite, whenZone } from './when.js';

/* What may change while a sale is open. */
const WHILE_OPEN = ['name', 'description', 'closes_at', 'pay_within_s', 'line'];

function digits(currency) {
  try {
    return new Intl.NumberFormat('en', { style: 'currency', currency }).resolvedOptions().maximumFractionDigits;
  } catch {
    return 2;
  }
}

/* "12.50" in minor units, without a number that is not whole on the way; NaN for what is no price. */
export function priceRead(value, currency) {
  const places = digits(currency);
  const found = /^(\d{1,13})(?:[.,](\d+))?$/.exec(value.trim());
  if (found === null || (found[2] ?? '').length > places) return NaN;
  return Number(found[1] + (found[2] ?? '').padEnd(places, '0'));
}

export function priceWrite(minor, currency) {
  const places = digits(currency);
  const all = String(minor).padStart(places + 1, '0');
  return places === 0 ? all : `${all.slice(0, -places)}.${all.slice(-places)}`;
}

const whole = (properties) => h('input', { inputmode: 'numeric', pattern: '[0-9]*', autocomplete: 'off', ...properties });

/* Each: its input, how it is read (undefined where nothing is wrong but nothing given), how it is written into the input. */
function fieldsMake() {
  const choice = (name, words) => h('select', { name }, words.map((word) => h('option', { value: word }, text(`${name}.${word}`))));
  const zone = whenZone();
  const rows = {
    name: h('input', { maxlength: 128, required: true, autocomplete: 'off' }),
    description: h('textarea', { rows: 3, maxlength: 2000 }),
    stock: whole({ required: true, value: '100' }),
    price: h('input', { inputmode: 'decimal', autocomplete: 'off' }),
    currency: h('input', { maxlength: 3, pattern: '[A-Z]{3}', autocomplete: 'off', spellcheck: 'false', list: 'currencies' }),
    opens_at: whenInput(),
    closes_at: whenInput(),
    units_per_grab_max: whole({ required: true, value: '1' }),
    grabs_per_buyer_max: whole({ required: true, value: '1' }),
    pay_within_s: whole({}),
    late_payment: choice('late_payment', ['retake', 'refund']),
    admission: choice('admission', ['login', 'open', 'token', 'line']),
    tokens_max: whole({}),
    admit_max: whole({}),
    line_name: h('input', { maxlength: 32, autocomplete: 'off' }),
    line_rate_per_s: whole({}),
    line_size: whole({}),
    line_timeout_ms: whole({}),
    event: h('select', {}, h('option', { value: '' }, text('event.none'))),
  };
  return Object.fromEntries(Object.entries(rows).map(([name, input]) => {
    input.name = name;
    return [name, field(text(`form.${name}`), input, text(`form.${name}.why`, { zone }))];
  }));
}

function wholeRead(fields, name, most) {
  const value = fields[name].input.value.trim().replaceAll(/[\s,_]/g, '');
  if (value === '') return null;
  const number = /^\d{1,15}$/.test(value) ? Number(value) : NaN;
  if (!(number >= 1 && number <= most)) throw new FieldError(name, text('form.wrong.whole', { most: new Intl.NumberFormat().format(most) }));
  return number;
}

class FieldError extends Error {
  constructor(name, message) {
    super(message);
    this.field = name;
  }
}

function timeRead(fields, name) {
  const at = whenRead(fields[name].input);
  if (at === undefined) throw new FieldError(name, text('form.wrong.time'));
  return at;
}

function lineRead(fields) {
  const name = fields.line_name.input.value.trim();
  if (name !== '') return name;
  const numbers = { rate_per_s: wholeRead(fields, 'line_rate_per_s', 1e6), size: wholeRead(fields, 'line_size', 1e6), timeout_ms: wholeRead(fields, 'line_timeout_ms', 3.6e6) };
  return Object.values(numbers).every((number) => number === null) ? null : numbers;
}

/* The terms as the server takes them; throws FieldError. */
function termsRead(fields) {
  const currency = fields.currency.input.value.trim().toUpperCase();
  const price = fields.price.input.value.trim();
  const minor = price === '' ? null : priceRead(price, currency);
  if (Number.isNaN(minor)) throw new FieldError('price', text('form.wrong.price'));
  if (fields.name.input.value === '') throw new FieldError('name', text('form.wrong.needed'));
  const event = fields.event.input.value;
  return {
    name: fields.name.input.value,
    description: fields.description.input.value || null,
    price: minor,
    currency: currency || null,
    opens_at: timeRead(fields, 'opens_at'),
    closes_at: timeRead(fields, 'closes_at'),
    units_per_grab_max: wholeRead(fields, 'units_per_grab_max', 1e9) ?? 1,
    grabs_per_buyer_max: wholeRead(fields, 'grabs_per_buyer_max', 1e6) ?? 1,
    pay_within_s: wholeRead(fields, 'pay_within_s', 31536000),
    late_payment: fields.late_payment.input.value,
    admission: fields.admission.input.value,
    tokens_max: wholeRead(fields, 'tokens_max', 1e9),
    admit_max: wholeRead(fields, 'admit_max', 1e9),
    line: lineRead(fields),
    event: event || null,
  };
}

function termsWrite(fields, sale) {
  for (const name of ['name', 'description', 'currency', 'units_per_grab_max', 'grabs_per_buyer_max', 'pay_within_s', 'late_payment', 'admission', 'tokens_max', 'admit_max'])
    fields[name].input.value = sale[name] ?? '';
  fields.price.input.value = sale.price === null ? '' : priceWrite(sale.price, sale.currency);
  for (const name of ['opens_at', 'closes_at']) whenWrite(fields[name].input, sale[name]);
  if (typeof sale.line === 'string') fields.line_name.input.value = sale.line;
  else for (const [name, value] of Object.entries(sale.line ?? {})) fields[`line_${name}`].input.value = value;
}

/* Only what is other than before: an unchanged opens_at may have passed, and may not be sent while the sale is open. */
export function termsChanged(terms, sale) {
  const same = (name) => {
    if (name.endsWith('_at')) return terms[name] === (sale[name] === null ? null : new Date(Math.floor(Date.parse(sale[name]) / 1000) * 1000).toISOString());
    return JSON.stringify(terms[name]) === JSON.stringify(sale[name] === '' ? null : sale[name]);
  };
  return Object.fromEntries(Object.entries(terms).filter(([name]) => !same(name)));
}

async function eventsLoad(input, seller, chosen, signal) {
  // What is chosen is there before the others are, and where they cannot be asked for.
  const kept = chosen ? h('option', { value: chosen }, chosen) : null;
  if (kept !== null) input.append(kept);
  input.value = chosen ?? '';
  const answer = await listed(`/v1/events?seller=${encodeURIComponent(seller)}`, { signal });
  for (const event of answer.items ?? []) {
    if (event.id === chosen) kept.textContent = event.name;
    else if (event.state === 'upcoming') input.append(h('option', { value: event.id }, event.name));
  }
}

function groups(fields, making) {
  const part = (key, ...names) => h('fieldset', { class: 'card', id: `part-${key}` }, h('legend', {}, text(`form.part.${key}`)),
    names.map((name) => fields[name].place));
  return [
    part('goods', 'name', 'description', ...(making ? ['stock'] : []), 'price', 'currency'),
    part('times', 'opens_at', 'closes_at', 'event'),
    part('each', 'units_per_grab_max', 'grabs_per_buyer_max'),
    part('paying', 'pay_within_s', 'late_payment'),
    part('entry', 'admission', 'tokens_max', 'line_name', 'line_rate_per_s', 'line_size', 'line_timeout_ms', 'admit_max'),
  ];
}

/* Tokens and lines are asked for where they matter; a line may stay prepared for later. */
function entryShow(fields) {
  const admission = fields.admission.input.value;
  fields.tokens_max.place.hidden = admission !== 'token';
  for (const name of ['line_name', 'line_rate_per_s', 'line_size', 'line_timeout_ms']) fields[name].place.hidden = admission !== 'line';
  fields.late_payment.place.hidden = fields.pay_within_s.input.value.trim() === '';
}

function openLock(fields, sale) {
  if (sale.state === 'upcoming') return;
  for (const [name, { input }] of Object.entries(fields)) {
    if (!WHILE_OPEN.includes(name.startsWith('line_') ? 'line' : name)) input.disabled = true;
  }
}

/* What was typed where a form is drawn anew in its place: in another language, or after a login that had ended. */
let draft = null; // { path, who, values }

function draftKeep(fields, signal) {
  const [path, who] = [location.pathname, session().name];
  signal.addEventListener('abort', () => {
    if (location.pathname === path) draft = { path, who, values: Object.entries(fields).map(([name, { input }]) => [name, input.value]) };
  }, { once: true });
}

/* The event that was chosen, too: it can be written down only when the events are there. */
function draftTake(fields) {
  const mine = draft !== null && draft.path === location.pathname && draft.who === session().name;
  const values = mine ? draft.values : [];
  for (const [name, value] of values) if (!fields[name].input.disabled) fields[name].input.value = value;
  draft = null;
  return Object.fromEntries(values).event;
}

export async function formView(place, parameters, signal) {
  const making = parameters.sale === undefined;
  const back = making ? '/console' : `/console/sales/${encodeURIComponent(parameters.sale)}`;
  const fields = fieldsMake();
  const told = outcome();
  let sale = null;

  const submit = async (event) => {
    event.preventDefault();
    told.clear();
    for (const each of Object.values(fields)) each.wrong(null);
    let terms;
    try {
      terms = termsRead(fields);
      if (making) terms = { ...terms, stock: wholeRead(fields, 'stock', 1e9) };
      if (making && terms.stock === null) throw new FieldError('stock', text('form.wrong.needed'));
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      fields[error.field].wrong(error.message);
      fields[error.field].input.focus();
      return;
    }
    const body = making ? Object.fromEntries(Object.entries(terms).filter(([, value]) => value !== null)) : termsChanged(terms, sale);
    const answer = await act(save, told, making ? 'POST' : 'PATCH', making ? '/v1/sales' : `/v1/sales/${sale.id}`, body);
    if (answer === null) {
      told.place.scrollIntoView({ block: 'nearest' });
      return;
    }
    announce(text(making ? 'form.made' : 'form.changed'));
    routeGo(`/console/sales/${answer.body.id}`);
  };
  const save = h('button', { type: 'submit', class: 'primary', id: 'save' }, text(making ? 'form.make' : 'form.change'));
  const form = h('form', { class: 'stack form', novalidate: true, on: { submit } }, groups(fields, making),
    h('datalist', { id: 'currencies' }, ['CNY', 'EUR', 'USD', 'JPY', 'GBP', 'HKD', 'KRW'].map((value) => h('option', { value }))),
    told.place, h('div', { class: 'row' }, save, h('a', { class: 'button quiet', href: back }, text('cancel'))));
  place.append(heading(text(making ? 'form.title.make' : 'form.title.change')), form);
  for (const name of ['admission', 'pay_within_s']) fields[name].input.addEventListener('input', () => entryShow(fields));
  entryShow(fields);

  if (!making) {
    form.hidden = true;
    const answer = await ask('GET', `/v1/sales/${encodeURIComponent(parameters.sale)}`, { signal });
    const mine = answer.ok && (session().role === 'admin' || answer.body.seller === session().name);
    if (!mine) {
      place.append(h('p', { class: 'notice bad', role: 'alert' }, problemText(answer.ok ? { code: 'NO_SUCH_SALE' } : answer)));
      return;
    }
    sale = answer.body;
    termsWrite(fields, sale);
    entryShow(fields);
    openLock(fields, sale);
    form.hidden = false;
    if (sale.state !== 'upcoming') form.prepend(h('p', { class: 'notice' }, text('form.locked')));
  }
  const event = draftTake(fields);
  draftKeep(fields, signal);
  entryShow(fields);
  await eventsLoad(fields.event.input, sale?.seller ?? session().name, event ?? sale?.event ?? null, signal);
}
