/* Messages that could not be told, of one seller: each, or all, may be sent again or dropped. */

import { ask } from '../shared/api.js';
import { h } from '../shared/dom.js';
import { count, moment } from '../shared/format.js';
import { text } from '../shared/text.js';
import { act, button, dialog, heard, row, table } from './parts.js';

/* seller: whose, or null for one's own. changed(): after anything was done. */
export function deliveriesMake(seller, told, signal, changed = () => {}) {
  const columns = [['delivery.type', ''], ['delivery.about', ''], ['delivery.at', 'when'], ['delivery.attempts', 'end'], ['delivery.error', 'wide'], ['', 'end']];
  const grid = table(text('delivery.title'), columns, text('delivery.none'));
  const whose = seller === null ? '' : `?seller=${encodeURIComponent(seller)}`;
  const done = async (answer, key, name) => {
    if (answer === null) return;
    told.good(text(key, { count: count(answer.body[name]) }));
    await heard(told, signal, load());
    changed();
  };
  const again = (pressed, id) => act(pressed, told, 'POST', `/v1/webhook/deliveries${id === null ? '' : `/${id}`}/retry${whose}`)
    .then((answer) => done(answer, 'delivery.retried', 'retried'));
  const drop = async (pressed) => {
    const yes = await dialog({ title: text('delivery.drop_all'), fields: [h('p', {}, text('delivery.drop_why'))], accept: text('delivery.drop_all'), danger: true });
    if (yes) await done(await act(pressed, told, 'DELETE', `/v1/webhook/deliveries${whose}`), 'delivery.dropped', 'dropped');
  };
  const line = (one) => row(columns, h('code', {}, one.type), one.order ?? one.sale ?? one.event ?? '–', moment(Date.parse(one.at)), count(one.attempts),
    h('span', { lang: 'en' }, one.error ?? ''), button(text('delivery.again'), (pressed) => again(pressed, one.id), { class: 'small', 'data-again': one.id }));
  async function load() {
    const answer = await ask('GET', `/v1/webhook/deliveries${whose}${whose ? '&' : '?'}limit=50`, { signal });
    if (!answer.ok) {
      if (answer.code !== 'NO_SUCH_WEBHOOK') told.bad(answer);
      return;
    }
    grid.rows(answer.body.items.map(line));
    all.hidden = answer.body.items.length === 0;
  }
  const all = h('div', { class: 'row pad', hidden: true },
    button(text('delivery.again_all'), (pressed) => again(pressed, null), { class: 'primary', 'data-again': 'all' }),
    button(text('delivery.drop_all'), drop, { class: 'danger' }));
  return { place: h('div', {}, all, grid.place), load };
}
