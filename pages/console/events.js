/* Events, which group sales: a seller's own, or for operators everyone's. One that has opened does not change any more. */

import { session } from '../shared/api.js';
import { h, say } from '../shared/dom.js';
import { count, moment } from '../shared/format.js';
import { text } from '../shared/text.js';
import { act, announce, button, field, heading, heard, named, outcome, paged, row, stateChip, table } from './parts.js';
import { whenInput, whenRead, whenWrite, whenZone } from './when.js';

const PAGE = 100;

/* What is given, or null where something is wrong, which its field says. */
function termsRead(name, description, opens) {
  const at = whenRead(opens.input);
  for (const one of [name, opens]) one.wrong(null);
  const bad = name.input.value === '' ? name : at === undefined || at === null ? opens : null;
  if (bad === null) return { name: name.input.value, description: description.input.value || null, opens_at: at };
  bad.wrong(text(bad === name ? 'form.wrong.needed' : 'form.wrong.time'));
  bad.input.focus();
  return null;
}

export async function eventsView(place, parameters, signal) {
  const who = session();
  const admin = who.role === 'admin';
  const told = outcome();
  const columns = [['form.name', 'wide'], ...(admin ? [['sale.seller', '']] : []), ['sale.state', ''], ['sale.opens_at', 'when'], ['events.subscribers', 'end'], ['', 'end']];
  const grid = table(text('menu.events'), columns, text('events.none'));
  const name = field(text('form.name'), h('input', { name: 'name', maxlength: 128, required: true, autocomplete: 'off' }), text('events.name.why'));
  const description = field(text('form.description'), h('textarea', { name: 'description', rows: 2, maxlength: 2000 }), text('events.description.why'));
  const opens = field(text('form.opens_at'), whenInput({ name: 'opens_at', required: true }), text('events.opens_at.why', { zone: whenZone() }));
  const title = h('h2');
  const save = h('button', { type: 'submit', class: 'primary', id: 'event-save' });
  const cancel = button(text('cancel'), () => edit(null), { class: 'quiet' });
  let changed = null; // the event that the form is about; null: a new one

  const edit = (event) => {
    changed = event;
    say(title, text(event === null ? 'events.new' : 'events.change'));
    say(save, text(event === null ? 'events.make' : 'form.change'));
    cancel.hidden = event === null;
    name.input.value = event?.name ?? '';
    description.input.value = event?.description ?? '';
    whenWrite(opens.input, event?.opens_at ?? null);
    for (const one of [name, opens]) one.wrong(null);
    if (event !== null) name.input.focus();
  };
  // A row stays while it looks the same; not all of an event is seen in it.
  const latest = (event) => list.items.find((one) => one.id === event.id) ?? event;
  const line = (event) => row(columns, named(event.name), ...(admin ? [named(event.seller)] : []), stateChip(event.state), moment(Date.parse(event.opens_at)),
    count(event.subscribers), event.state === 'upcoming' ? button(text('action.edit'), () => edit(latest(event)), { class: 'small', 'data-event': event.id }) : '');
  const path = (cursor) => `/v1/events?${new URLSearchParams({ limit: PAGE, ...(admin ? {} : { seller: who.name }), ...(cursor ? { cursor } : {}) })}`;
  const list = paged(grid, told, signal, path, line);
  const submit = async (event) => {
    event.preventDefault();
    told.clear();
    const terms = termsRead(name, description, opens);
    if (terms === null) return;
    // A moment that was not touched has lost its milliseconds in the input.
    if (changed !== null && Math.floor(Date.parse(changed.opens_at) / 1000) * 1000 === Date.parse(terms.opens_at)) delete terms.opens_at;
    const answer = await act(save, told, changed === null ? 'POST' : 'PATCH', changed === null ? '/v1/events' : `/v1/events/${changed.id}`, terms);
    if (answer === null) return;
    const words = text(changed === null ? 'events.made' : 'events.changed', { name: answer.body.name });
    told.good(words);
    announce(words);
    edit(null);
    // Whoever is quicker than the list edits what was saved, not what was before.
    list.put(answer.body);
    await heard(told, signal, list.load());
  };
  edit(null);
  place.append(heading(text('menu.events')), h('p', { class: 'soft lead' }, text('events.lead')),
    h('form', { class: 'card stack form', novalidate: true, on: { submit } }, title, name.place, description.place, opens.place, h('div', { class: 'row' }, save, cancel)),
    told.place, h('section', { class: 'card flush' }, grid.place), h('div', { class: 'row' }, list.more));
  await list.load();
}
