/* What stands around every view: the bar above, the line below, and the voice for screen readers. */

import { ask, session, sessionEnd, Unreachable } from '../shared/api.js';
import { h, said, svg } from '../shared/dom.js';
import { routeGo } from '../shared/route.js';
import { languageSwitch, text, textHas } from '../shared/text.js';

/* Spoken by screen readers, also when it was the last thing said. */
export function announce(words) {
  const live = document.getElementById('live');
  live.textContent = live.textContent === words ? `${words}\u00a0` : words;
}

export function titled(words) {
  document.title = `${words} · Stampede`;
}

/* What a problem means to a buyer. */
export function problemText(code) {
  return text(textHas(`problem.${code}`) ? `problem.${code}` : 'problem.FAILED');
}

/* Where to come back to after logging in. */
export function loginPath() {
  const here = location.pathname;
  return here === '/login' || here === '/register' || here === '/' ? '/login' : `/login?next=${encodeURIComponent(here)}`;
}

/* This browser forgets the login at once, also where the server cannot be told. */
function logOut() {
  ask('POST', '/v1/logout').catch((error) => { if (!(error instanceof Unreachable)) throw error; });
  sessionEnd();
  routeGo('/');
}

function mark() {
  return svg('svg', { viewBox: '0 0 24 24', 'aria-hidden': 'true', focusable: 'false' },
    svg('path', { d: 'M13.8 1.8 4.6 13.7h5.6L9.3 22.2 19 10h-6z', fill: 'currentColor' }));
}

function who() {
  const user = session();
  if (user === null) {
    return [h('a', { class: 'button quiet', href: loginPath() }, text('login')), h('a', { class: 'button quiet', href: '/register' }, text('register'))];
  }
  return [said(user.name, { title: user.name }), h('button', { type: 'button', class: 'quiet', id: 'logout', on: { click: logOut } }, text('logout'))];
}

function link(path, key) {
  return h('a', { href: path, 'aria-current': location.pathname === path ? 'page' : undefined }, text(key));
}

export function frameShow() {
  document.getElementById('top').replaceChildren(
    h('a', { class: 'skip', href: '#main' }, text('skip')),
    h('header', { class: 'top' }, h('div', {},
      h('a', { class: 'brand', href: '/' }, mark(), 'Stampede'),
      h('nav', { 'aria-label': text('nav') }, link('/', 'sales'), link('/orders', 'orders')),
      h('div', { class: 'who' }, ...who(), languageSwitch()))));
  document.getElementById('foot').replaceChildren(h('footer', { class: 'foot' }, h('div', {},
    h('span', {}, text('foot')), h('a', { href: '/console' }, text('foot.sell')))));
}
