/* Whom the shop turns away: users and addresses. */

import { session } from '../shared/api.js';
import { h } from '../shared/dom.js';
import { text } from '../shared/text.js';
import { act, announce, button, dialog, field, heading, heard, named, outcome, paged, row, table } from './parts.js';

const PAGE = 100;

export async function blocksView(place, parameters, signal) {
  const told = outcome();
  const columns = [['blocks.kind', ''], ['blocks.whom', 'wide'], ['', 'end']];
  const grid = table(text('menu.blocks'), columns, text('blocks.none'));
  const kind = field(text('blocks.kind'), h('select', { name: 'kind' }, ['user', 'ip'].map((one) => h('option', { value: one }, text(`blocks.${one}`)))));
  const whom = field(text('blocks.whom'), h('input', { name: 'whom', required: true, maxlength: 128, autocomplete: 'off' }), text('blocks.why'));

  const remove = async (pressed, entry) => {
    if (await act(pressed, told, 'DELETE', `/v1/blocks/${encodeURIComponent(entry)}`) === null) return;
    told.good(text('blocks.removed', { entry }));
    await heard(told, signal, list.load());
    whom.input.focus();
  };
  const line = ({ entry }) => {
    const [word, ...rest] = entry.split(' ');
    const drop = button(text('blocks.remove'), (pressed) => remove(pressed, entry), { class: 'small', 'aria-label': text('blocks.remove_one', { entry }) });
    return row(columns, text(`blocks.${word}`), named(rest.join(' ')), drop);
  };
  const list = paged(grid, told, signal, (cursor) => `/v1/blocks?limit=${PAGE}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`, line);
  const add = h('button', { type: 'submit', class: 'primary', id: 'block' }, text('blocks.add'));
  for (const { input } of [kind, whom]) input.addEventListener('input', () => whom.wrong(null));
  /* Nobody blocks themselves by a slip: it takes the way back along. Where somebody comes from the page cannot know, so it asks. */
  const meant = (of, name) => {
    if (of === 'ip') return dialog({ title: text('blocks.address', { name }), fields: [h('p', {}, text('blocks.address.why'))], accept: text('blocks.add'), danger: true });
    const self = name === session()?.name;
    if (self) whom.wrong(text('blocks.self'));
    return !self;
  };
  const submit = async (event) => {
    event.preventDefault();
    const name = whom.input.value.trim();
    const entry = `${kind.input.value} ${name}`;
    if (!await meant(kind.input.value, name)) {
      whom.input.focus();
      return;
    }
    const answer = await act(add, told, 'POST', '/v1/blocks', { entry });
    if (answer === null) return;
    told.good(text(answer.status === 200 ? 'blocks.had' : 'blocks.added', { entry: answer.body.entry }));
    announce(text('blocks.added', { entry: answer.body.entry }));
    whom.input.value = '';
    await heard(told, signal, list.load());
  };
  place.append(heading(text('menu.blocks')), h('p', { class: 'soft lead' }, text('blocks.lead')),
    h('form', { class: 'card inline', on: { submit } }, kind.place, whom.place, add), told.place,
    h('section', { class: 'card flush' }, grid.place), h('div', { class: 'row' }, list.more));
  await list.load();
}
