/* The storefront. */

import { sessionWatch } from '../shared/api.js';
import { clockForget } from '../shared/clock.js';
import { routeShow, routeStart } from '../shared/route.js';
import { languageStart, languageWatch } from '../shared/text.js';
import { frameShow } from './frame.js';
import { listView } from './list.js';
import { missingView } from './missing.js';
import { ordersView } from './orders.js';
import { payView } from './pay.js';
import { loginView, registerView } from './people.js';
import { saleView } from './sale.js';

function framed(view) {
  return (place, parameters, signal) => {
    frameShow();
    return view(place, parameters, signal);
  };
}

await languageStart({ en: () => import('./texts/en.js'), zh: () => import('./texts/zh.js') });
languageWatch(() => {
  routeShow();
  document.getElementById('language')?.focus();
});
// Whoever types a password is not disturbed by what another tab does.
sessionWatch(() => { if (location.pathname !== '/login' && location.pathname !== '/register') routeShow(); });
document.addEventListener('visibilitychange', () => { if (!document.hidden) clockForget(); });
routeStart(document.getElementById('main'), [
  ['/', framed(listView)],
  ['/s/:sale', framed(saleView)],
  ['/orders', framed(ordersView)],
  ['/pay/:order', framed(payView)],
  ['/login', framed(loginView)],
  ['/register', framed(registerView)],
  ['*', framed(missingView)],
]);
