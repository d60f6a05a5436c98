/* A seller's own webhook: where their shop is told what happened. */

import { ask } from '../shared/api.js';
import { h, say } from '../shared/dom.js';
import { count, moment } from '../shared/format.js';
import { text } from '../shared/text.js';
import { deliveriesMake } from './deliveries.js';
import { act, button, dialog, field, heading, heard, outcome } from './parts.js';

export async function hookView(place, parameters, signal) {
  const told = outcome();
  const url = field(text('hook.url'), h('input', { type: 'url', name: 'url', required: true, maxlength: 500, placeholder: 'https://', autocomplete: 'off' }), text('hook.why'));
  const state = h('p', { class: 'soft', id: 'hook-state' });
  const secret = h('p', { class: 'notice warn', hidden: true });
  const deliveries = deliveriesMake(null, told, signal, () => heard(told, signal, load()));

  const show = (hook) => {
    const there = hook !== null;
    for (const one of [test, rotate, remove]) one.hidden = !there;
    if (!there) {
      say(state, text('hook.none'));
      return;
    }
    url.input.value = hook.url;
    say(state, text('hook.state', { since: moment(Date.parse(hook.since)), pending: count(hook.pending), failed: count(hook.failed) }));
    if (hook.secret !== null) {
      secret.replaceChildren(text('hook.secret'), ' ', h('code', { id: 'secret' }, hook.secret));
      secret.hidden = false;
    }
  };
  const put = async (pressed, body) => {
    const answer = await act(pressed, told, 'PUT', '/v1/webhook', body);
    if (answer === null) return;
    show(answer.body);
    told.good(text('hook.saved'));
    await heard(told, signal, deliveries.load());
  };
  async function load() {
    const answer = await ask('GET', '/v1/webhook', { signal });
    if (answer.ok) show(answer.body);
    else if (answer.code === 'NO_SUCH_WEBHOOK') show(null);
    else told.bad(answer);
  }
  const save = h('button', { type: 'submit', class: 'primary', id: 'hook-save' }, text('hook.save'));
  const test = button(text('hook.test'), async (pressed) => {
    if (await act(pressed, told, 'POST', '/v1/webhook/test') !== null) told.good(text('hook.tested'));
  }, { hidden: true, id: 'hook-test' });
  const rotate = button(text('hook.rotate'), (pressed) => put(pressed, { url: url.input.value, rotate: true }), { hidden: true, id: 'hook-rotate' });
  const remove = button(text('hook.remove'), async (pressed) => {
    const yes = await dialog({ title: text('hook.remove'), fields: [h('p', {}, text('hook.remove_why'))], accept: text('hook.remove'), danger: true });
    if (yes && await act(pressed, told, 'DELETE', '/v1/webhook') !== null) {
      url.input.value = '';
      secret.hidden = true;
      told.good(text('hook.removed'));
      await heard(told, signal, load());
    }
  }, { class: 'danger', hidden: true, id: 'hook-remove' });
  const submit = (event) => {
    event.preventDefault();
    put(save, { url: url.input.value });
  };
  place.append(heading(text('menu.hook')), h('p', { class: 'soft lead' }, text('hook.lead')),
    h('form', { class: 'card stack', on: { submit } }, url.place, state, secret, h('div', { class: 'row' }, save, test, rotate, remove)), told.place,
    h('section', { class: 'card flush' }, h('h2', { class: 'pad' }, text('delivery.title')), deliveries.place));
  await load();
  await deliveries.load();
}
