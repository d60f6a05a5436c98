/* Languages. Each has one table: a key has a text with {name}s in it, or a function of the values where a plural decides.
 *
 * Chosen by what the browser prefers, and by the switch, which is remembered. */

import { h } from './dom.js';
import { keptGet, keptSet } from './kept.js';

const KEPT = 'stampede.language';
/* The attribute lang, and the name of each in itself. */
const LANGUAGES = { en: { lang: 'en', name: 'English' }, zh: { lang: 'zh-Hans', name: '中文' } };

let loaders = null;
let table = {};
let code = 'en';
const listeners = new Set();

function preferred() {
  const kept = keptGet(KEPT);
  if (kept in LANGUAGES) return kept;
  for (const wish of navigator.languages ?? [navigator.language]) {
    const known = wish.toLowerCase().split('-')[0];
    if (known in LANGUAGES) return known;
  }
  return 'en';
}

async function load(wanted) {
  table = (await loaders[wanted]()).default;
  code = wanted;
  document.documentElement.lang = LANGUAGES[code].lang;
}

/* tables: for each language a function that imports its table; only the one that is spoken is loaded. */
export async function languageStart(tables) {
  loaders = tables;
  await load(preferred());
}

/* For Intl: en, zh. */
export function language() {
  return code;
}

export function languageWatch(listener) {
  listeners.add(listener);
}

export function text(key, values = {}) {
  const entry = table[key];
  if (entry === undefined) throw new Error(`no text for ${key} in ${code}`);
  if (typeof entry === 'function') return entry(values);
  return entry.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

/* Whether there is such a text: problems have codes that a page may not know. */
export function textHas(key) {
  return table[key] !== undefined;
}

/* A button that speaks the other language. */
export function languageSwitch() {
  const other = Object.keys(LANGUAGES).find((each) => each !== code);
  const change = async () => {
    keptSet(KEPT, other);
    await load(other);
    for (const listener of listeners) listener();
  };
  return h('button', { type: 'button', class: 'quiet', id: 'language', lang: LANGUAGES[other].lang, on: { click: change } },
    LANGUAGES[other].name);
}
