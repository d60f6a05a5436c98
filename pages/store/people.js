/* Logging in and registering. The forms are made here, so that none is ever sent by a browser without this script. */

import { ask, sessionStart, Unreachable } from '../shared/api.js';
import { h, say } from '../shared/dom.js';
import { routeGo } from '../shared/route.js';
import { text, textHas } from '../shared/text.js';
import { announce, problemText, titled } from './frame.js';

/* Only a path of this site. */
function nextPath() {
  const wish = new URLSearchParams(location.search).get('next') ?? '/';
  return /^\/(?!\/)[\w./%-]*$/.test(wish) ? wish : '/';
}

function field(name, type, autocomplete, hint) {
  const wrong = h('p', { class: 'wrong', id: `${name}-wrong` });
  const input = h('input', { id: name, name, type, autocomplete, required: true, maxlength: type === 'password' ? 128 : 64,
    autocapitalize: 'none', spellcheck: 'false', 'aria-describedby': `${name}-hint ${name}-wrong` });
  const element = h('div', { class: 'field' }, h('label', { for: name }, text(name)), h('p', { class: 'hint', id: `${name}-hint` }, hint ?? ''), input, wrong);
  const complain = (words) => {
    say(wrong, words);
    if (words) input.setAttribute('aria-invalid', 'true');
    else input.removeAttribute('aria-invalid');
  };
  return { element, input, complain };
}

async function logIn(name, password) {
  const answer = await ask('POST', '/v1/login', { body: { username: name, password }, anonymous: true });
  if (answer.ok) sessionStart(name, answer.body);
  return answer;
}

let unheard = null;

/* A name that is taken may be one that was registered a moment ago, and the answer got lost. */
async function register(name, password) {
  const before = unheard;
  unheard = name;
  const answer = await ask('POST', '/v1/users', { body: { username: name, password, role: 'customer' }, anonymous: true });
  if (!answer.ok && !(answer.code === 'USERNAME_TAKEN' && before === name)) {
    unheard = null;
    return answer;
  }
  const entered = await logIn(name, password);
  unheard = null;
  return entered.ok || answer.ok ? entered : answer;
}

function form(place, kind, act) {
  titled(text(kind));
  const name = field('username', 'text', 'username', kind === 'register' ? text('username.hint') : '');
  const password = field('password', 'password', kind === 'register' ? 'new-password' : 'current-password', kind === 'register' ? text('password.hint') : '');
  const trouble = h('p', { class: 'notice bad', role: 'alert', hidden: true });
  const button = h('button', { class: 'primary big', id: 'submit' }, text(kind));
  const complain = (answer) => {
    // The server names the field that it does not like.
    const about = answer.code === 'BAD_INPUT' ? [name, password].find((each) => (answer.body.detail ?? '').includes(each.input.name)) : null;
    const taken = answer.code === 'USERNAME_TAKEN' ? name : about;
    const words = about && textHas(`${about.input.name}.bad`) ? text(`${about.input.name}.bad`) : problemText(answer.code);
    if (taken) {
      taken.complain(words);
      taken.input.focus();
    } else {
      say(trouble, words);
      trouble.hidden = false;
    }
  };
  const submit = async (event) => {
    event.preventDefault();
    if (button.getAttribute('aria-disabled') === 'true') return;
    name.complain('');
    password.complain('');
    trouble.hidden = true;
    button.setAttribute('aria-disabled', 'true');
    try {
      const answer = await act(name.input.value, password.input.value);
      if (answer.ok) {
        announce(text('login.done'));
        routeGo(nextPath(), { replace: true });
        return;
      }
      complain(answer);
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      say(trouble, text('offline'));
      trouble.hidden = false;
    } finally {
      button.removeAttribute('aria-disabled');
    }
  };
  const other = kind === 'register' ? 'login' : 'register';
  place.append(h('div', { class: 'card narrow stack' },
    h('h1', {}, text(kind)), trouble,
    h('form', { class: 'stack', novalidate: true, on: { submit } }, name.element, password.element, button),
    h('p', { class: 'soft' }, text(`${other}.instead`), ' ', h('a', { href: `/${other}${location.search}` }, text(other)))));
  name.input.focus();
}

export function loginView(place) {
  form(place, 'login', logIn);
}

export function registerView(place) {
  form(place, 'register', register);
}
