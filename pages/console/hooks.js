/* The webhooks of all sellers, those that fail most first. */

import { ask } from '../shared/api.js';
import { h } from '../shared/dom.js';
import { count, moment } from '../shared/format.js';
import { text } from '../shared/text.js';
import { deliveriesMake } from './deliveries.js';
import { button, heading, heard, named, outcome, repeat, row, table } from './parts.js';

export function hooksView(place, parameters, signal) {
  const told = outcome();
  const columns = [['sale.seller', ''], ['hook.url', 'wide'], ['hook.pending', 'end'], ['hook.failed', 'end'], ['hook.last_failure', 'wide'], ['', 'end']];
  const grid = table(text('menu.hooks'), columns, text('hooks.none'));
  const shown = h('section', { class: 'card flush', hidden: true, id: 'deliveries' });

  const open = (seller) => {
    const deliveries = deliveriesMake(seller, told, signal, () => heard(told, signal, load()));
    const title = h('h2', { class: 'pad', tabindex: -1 }, text('delivery.title'), ' · ', named(seller));
    shown.replaceChildren(title, deliveries.place);
    shown.hidden = false;
    heard(told, signal, deliveries.load());
    title.focus();
  };
  const line = (hook) => row(columns, named(hook.seller), h('bdi', { class: 'address', lang: 'en' }, hook.url), count(hook.pending),
    h('span', { class: hook.failed > 0 ? 'chip bad' : null }, count(hook.failed)),
    hook.last_failure_at === null ? '–' : h('span', {}, h('span', { lang: 'en' }, hook.last_failure), ' ', h('span', { class: 'soft' }, moment(Date.parse(hook.last_failure_at)))),
    button(text('hooks.look'), () => open(hook.seller), { class: 'small', 'data-seller': hook.seller }));
  async function load() {
    const answer = await ask('GET', '/v1/webhooks?limit=100', { signal });
    if (!answer.ok) {
      told.bad(answer);
      return;
    }
    grid.rows(answer.body.items.map(line));
  }
  place.append(heading(text('menu.hooks')), told.place, h('section', { class: 'card flush' }, grid.place), shown);
  repeat(3000, signal, told, load);
}
