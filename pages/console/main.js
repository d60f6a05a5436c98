/* The console: for sellers their sales, for operators the whole shop. */

import { Unreachable, ask, session, sessionEnd, sessionWatch } from '../shared/api.js';
import { clockForget } from '../shared/clock.js';
import { h, said, svg } from '../shared/dom.js';
import { routeGo, routeShow, routeStart } from '../shared/route.js';
import { languageStart, languageSwitch, languageWatch, text } from '../shared/text.js';
import { blocksView } from './blocks.js';
import { eventsView } from './events.js';
import { hookView } from './hook.js';
import { hooksView } from './hooks.js';
import { limitsView } from './limits.js';
import { logView } from './log.js';
import { loginView } from './login.js';
import { nodesView } from './nodes.js';
import { button } from './parts.js';
import { formView } from './sale_form.js';
import { saleView } from './sale_live.js';
import { salesView } from './sales.js';

/* Where each role may go, in the order of the menu. */
const MENU = {
  seller: [['/console', 'menu.sales'], ['/console/events', 'menu.events'], ['/console/hook', 'menu.hook']],
  admin: [
    ['/console', 'menu.sales'], ['/console/events', 'menu.events'], ['/console/nodes', 'menu.nodes'], ['/console/limits', 'menu.limits'],
    ['/console/blocks', 'menu.blocks'], ['/console/hooks', 'menu.hooks'], ['/console/log', 'menu.log'],
  ],
};

function mark() {
  return svg('svg', { viewBox: '0 0 24 24', 'aria-hidden': 'true' },
    svg('rect', { width: 24, height: 24, rx: 6, fill: 'currentColor' }),
    svg('path', { d: 'M13.6 3.5 6 13.4h4.7L9.9 20.5 18 10.2h-5z', fill: 'var(--card)' }));
}

/* This browser forgets the login at once, also where the server cannot be told. */
function logOut() {
  ask('POST', '/v1/logout').catch((error) => { if (!(error instanceof Unreachable)) throw error; });
  sessionEnd();
}

function topShow() {
  const who = session();
  const path = location.pathname.replace(/\/$/, '');
  const here = (to) => (to === '/console' ? path === to || path.startsWith('/console/sales') || path.startsWith('/console/edit') : path === to);
  const links = (MENU[who?.role] ?? []).map(([to, key]) =>
    h('a', { href: to, 'aria-current': here(to) ? 'page' : null }, text(key)));
  document.getElementById('top').replaceChildren(
    h('a', { class: 'skip', href: '#main' }, text('skip')),
    h('header', { class: 'top' }, h('div', {},
      h('a', { class: 'brand', href: '/console' }, mark(), text('brand')),
      h('nav', { 'aria-label': text('menu') }, links),
      h('div', { class: 'who' },
        who && said(who.name, { id: 'who', title: who.name }),
        who && h('span', { class: 'chip' }, text(`role.${who.role}`)),
        languageSwitch(),
        who && h('button', { type: 'button', class: 'quiet', id: 'logout', on: { click: logOut } }, text('log_out'))))));
}

/* A view that could not be shown for want of the server offers to try again. */
async function shown(place, signal, view) {
  try {
    await view;
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    if (signal.aborted) return;
    place.append(h('p', { class: 'notice bad', role: 'alert' }, text('unreachable')), h('div', { class: 'row' }, button(text('again'), () => routeShow(true), { id: 'again' })));
  }
}

/* A view for those who may see it; for others the way there. */
function only(roles, view) {
  return (place, parameters, signal) => {
    topShow();
    document.title = text('title');
    const role = session()?.role;
    return roles.includes(role) ? shown(place, signal, view(place, parameters, signal)) : loginView(place, role);
  };
}

const SELLING = ['seller', 'admin'];
const ROUTES = [
  ['/console', only(SELLING, salesView)],
  ['/console/sales/new', only(SELLING, formView)],
  ['/console/sales/:sale', only(SELLING, saleView)],
  ['/console/edit/:sale', only(SELLING, formView)],
  ['/console/events', only(SELLING, eventsView)],
  ['/console/hook', only(['seller'], hookView)],
  ['/console/nodes', only(['admin'], nodesView)],
  ['/console/limits', only(['admin'], limitsView)],
  ['/console/blocks', only(['admin'], blocksView)],
  ['/console/hooks', only(['admin'], hooksView)],
  ['/console/log', only(['admin'], logView)],
  ['*', () => routeGo('/console', { replace: true })],
];

await languageStart({ en: () => import('./texts/en.js'), zh: () => import('./texts/zh.js') });
languageWatch(() => {
  routeShow();
  document.getElementById('language')?.focus();
});
sessionWatch(() => routeShow());
document.addEventListener('visibilitychange', () => { if (!document.hidden) clockForget(); });
routeStart(document.getElementById('main'), ROUTES);
