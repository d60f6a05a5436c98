/* The way in: sellers register here, operators are made at the command line. */

import { Unreachable, ask, sessionEnd, sessionStart } from '../shared/api.js';
import { h } from '../shared/dom.js';
import { text } from '../shared/text.js';
import { button, field, outcome } from './parts.js';

async function enter(username, password) {
  const answer = await ask('POST', '/v1/login', { body: { username, password }, anonymous: true });
  if (answer.ok) sessionStart(username, answer.body);
  return answer;
}

/* role: of one who is logged in and has no business here. */
export function loginView(place, role) {
  const told = outcome();
  const name = field(text('login.name'), h('input', { name: 'username', autocomplete: 'username', required: true, maxlength: 64 }));
  const password = field(text('login.password'), h('input', { name: 'password', type: 'password', autocomplete: 'current-password', required: true, minlength: 8 }),
    text('login.password_hint'));

  const submit = async (event) => {
    event.preventDefault();
    told.clear();
    const make = event.submitter?.value === 'register';
    const [username, word] = [name.input.value, password.input.value];
    try {
      let answer = null;
      if (make) answer = await ask('POST', '/v1/users', { body: { username, password: word, role: 'seller' }, anonymous: true });
      if (answer === null || answer.ok) answer = await enter(username, word);
      if (!answer.ok) told.bad(answer);
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      told.bad(error);
    }
  };

  if (role !== undefined) {
    place.append(h('div', { class: 'card stack narrow' },
      h('h1', {}, text('brand')), h('p', { class: 'notice warn' }, text(role === 'customer' ? 'login.customer' : 'login.not_yours')),
      role === 'customer' && h('div', { class: 'row' }, button(text('log_out'), () => sessionEnd()), h('a', { href: '/' }, text('login.store')))));
    return;
  }
  place.append(h('div', { class: 'card stack narrow' },
    h('h1', {}, text('login.title')), h('p', { class: 'soft' }, text('login.lead')), told.place,
    h('form', { class: 'stack', on: { submit } }, name.place, password.place,
      h('div', { class: 'row' },
        h('button', { class: 'primary', type: 'submit', value: 'login', id: 'login' }, text('login.in')),
        h('button', { type: 'submit', value: 'register', id: 'register' }, text('login.register'))))));
}
