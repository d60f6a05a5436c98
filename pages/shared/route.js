/* Which part of a site is shown. Addresses are real: each can be opened by itself, gone back to and reloaded.
 *
 * A view is a function (place, parameters, signal): it fills place, which is empty, and stops when the signal says so. One that has to ask
 * before it knows its heading returns a promise of it. */

let routes = [];
let place = null;
let ends = null;
let address = null; // that is shown

/* What is not percent-encoded as it should be stands for nothing. */
function segments(path) {
  try {
    return path.split('/').map(decodeURIComponent);
  } catch {
    return [];
  }
}

function matched(pattern, path) {
  const parts = pattern.split('/');
  const given = segments(path);
  if (parts.length !== given.length) return null;
  const parameters = {};
  for (let i = 0; i < parts.length; i++) {
    if (parts[i].startsWith(':') && given[i] !== '') {
      parameters[parts[i].slice(1)] = given[i];
    } else if (parts[i] !== given[i]) {
      return null;
    }
  }
  return parameters;
}

/* Where a reader begins, unless they, or a form, have begun elsewhere. */
function headingFocus() {
  const heading = place.querySelector('h1');
  if (heading === null || (place.contains(document.activeElement) && document.activeElement !== place)) return;
  heading.setAttribute('tabindex', '-1');
  heading.focus({ preventScroll: true });
}

/* Shows what the address says, anew. arrive: the reader has come here, so the heading gets the focus. */
export function routeShow(arrive = false) {
  ends?.abort();
  ends = new AbortController();
  address = location.pathname + location.search;
  const path = location.pathname.length > 1 ? location.pathname.replace(/\/$/, '') : location.pathname;
  for (const [pattern, view] of routes) {
    const parameters = matched(pattern, path);
    if (parameters === null && pattern !== '*') continue;
    place.replaceChildren();
    const { signal } = ends;
    const drawn = view(place, parameters ?? {}, signal);
    if (arrive) {
      scrollTo(0, 0);
      headingFocus();
      drawn?.then(() => { if (!signal.aborted) headingFocus(); });
    }
    return;
  }
}

export function routeGo(path, { replace = false } = {}) {
  history[replace ? 'replaceState' : 'pushState'](null, '', path);
  routeShow(true);
}

/* rows: [pattern, view], /s/:sale stands for one segment, * for whatever is left. */
export function routeStart(element, rows) {
  routes = rows;
  place = element;
  document.addEventListener('click', (event) => {
    const link = event.target.closest?.('a[href]');
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !plain || event.defaultPrevented || link.target || link.hasAttribute('download')) return;
    const inside = link.origin === location.origin && routes.some(([pattern]) => pattern !== '*' && matched(pattern, link.pathname));
    if (!inside || (link.hash && link.pathname === location.pathname)) return;
    event.preventDefault();
    routeGo(link.pathname + link.search);
  });
  // A way to a place on the same page comes here as well, and whoever is half through a form has not left it.
  addEventListener('popstate', () => { if (location.pathname + location.search !== address) routeShow(true); });
  // A browser may keep a page that was left, with all its connections, of which there are few: it lets go of them, and begins anew if it
  // is come back to.
  addEventListener('pagehide', () => ends?.abort());
  addEventListener('pageshow', (event) => { if (event.persisted) routeShow(); });
  routeShow();
}
