/* What the views of the console share: how something is announced, asked, tabled and explained. */

import { Unreachable, ask } from '../shared/api.js';
import { h, said, say } from '../shared/dom.js';
import { text, textHas } from '../shared/text.js';

/* Tells whoever cannot see what has just changed. */
export function announce(message) {
  say(document.getElementById('live'), message);
}

/* A problem as an element: what it means in the reader's language. What the server itself says to it stands beside it only where that says more:
 * it is English, and for programs. */
export function problemText(answer) {
  const known = textHas(`problem.${answer.code}`);
  const detail = !known || answer.code === 'BAD_INPUT' ? answer.body?.detail : null;
  return h('span', {}, text(known ? `problem.${answer.code}` : 'problem.other', { code: answer.code }),
    detail && h('span', { class: 'detail', lang: 'en' }, ` ${detail}`));
}

/* A place for the outcome of what somebody did: good, bad, or nothing. It is there from the beginning, so that it is read out. */
export function outcome() {
  const place = h('p', { class: 'notice', role: 'status', hidden: true });
  const set = (kind, content) => {
    place.className = `notice ${kind}`;
    place.replaceChildren(content);
    place.hidden = false;
  };
  return {
    place,
    good: (message) => set('good', message),
    warn: (message) => set('warn', message),
    bad: (answer) => set('bad', answer instanceof Error ? text('unreachable') : problemText(answer)),
    clear: () => { place.hidden = true; },
  };
}

const acting = new WeakSet();

/* Asks, with the button that was pressed out of action meanwhile. The answer, or null where the outcome has been told, or will be: two
 * presses are one. */
export async function act(button, told, method, path, body) {
  if (acting.has(button)) return null;
  acting.add(button);
  button.setAttribute('aria-disabled', 'true');
  try {
    const answer = await ask(method, path, body === undefined ? {} : { body });
    if (answer.ok) return answer;
    told.bad(answer);
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    told.bad(error);
  } finally {
    acting.delete(button);
    button.removeAttribute('aria-disabled');
  }
  return null;
}

/* What a question found out, or null where the server could not be asked, which is told unless nobody waits for it any more. */
export async function heard(told, signal, question) {
  try {
    return await question;
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    if (!signal.aborted) told.bad(error);
    return null;
  }
}

/* Out of action until what it does is done. */
export function button(label, click, properties = {}) {
  const press = async ({ currentTarget: pressed }) => {
    if (pressed.getAttribute('aria-disabled') === 'true') return;
    pressed.setAttribute('aria-disabled', 'true');
    try {
      await click(pressed);
    } finally {
      pressed.removeAttribute('aria-disabled');
    }
  };
  return h('button', { type: 'button', on: { click: press }, ...properties }, label);
}

/* A small window with a form in it. fields: elements. Resolves to whether it was accepted. */
export function dialog({ title, fields, accept, danger = false }) {
  return new Promise((done) => {
    const no = h('button', { type: 'button', class: 'quiet' }, text('cancel'));
    const window_ = h('dialog', { 'aria-labelledby': 'dialog-title' },
      h('form', { method: 'dialog', class: 'stack' },
        h('h2', { id: 'dialog-title' }, title), ...fields,
        h('div', { class: 'row end' }, no, h('button', { type: 'submit', value: 'yes', class: danger ? 'danger' : 'primary' }, accept))));
    no.addEventListener('click', () => window_.close('no'));
    window_.addEventListener('close', () => {
      window_.remove();
      done(window_.returnValue === 'yes');
    });
    document.body.append(window_);
    window_.showModal();
  });
}

let fieldsMade = 0;

/* A labelled input with its explanation; wrong(message) says what is wrong with it, wrong(null) nothing. */
export function field(label, input, hint) {
  fieldsMade += 1;
  const id = `field-${fieldsMade}`;
  const complaint = h('p', { class: 'wrong', id: `${id}-wrong`, hidden: true });
  input.id = id;
  input.setAttribute('aria-describedby', `${hint ? `${id}-hint ` : ''}${id}-wrong`);
  const place = h('div', { class: 'field' }, h('label', { for: id }, label), input,
    hint && h('p', { class: 'hint', id: `${id}-hint` }, hint), complaint);
  const wrong = (message) => {
    complaint.hidden = message === null;
    complaint.textContent = message ?? '';
    if (message === null) input.removeAttribute('aria-invalid');
    else input.setAttribute('aria-invalid', 'true');
  };
  return { place, input, wrong };
}

/* columns: [[key of its heading, class]]. Rows that are as they were stay, so that nobody loses the link under their finger or what they
 * have marked: what a row does may rest only on what is seen in it, or on what is looked up when it is pressed. Where there are none, empty
 * is said. */
export function table(caption, columns, empty) {
  const body = h('tbody');
  const nothing = h('p', { class: 'soft pad' }, empty);
  const grid = h('table', {}, h('caption', { class: 'hidden-text' }, caption),
    h('thead', {}, h('tr', {}, columns.map(([key, kind]) => h('th', { scope: 'col', class: kind }, key === '' ? h('span', { class: 'hidden-text' }, text('actions')) : text(key))))),
    body);
  const scroll = h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption }, grid);
  const place = h('div', { class: 'tabled' }, scroll, nothing);
  const rows = (list) => {
    const held = body.contains(document.activeElement) ? document.activeElement : null;
    list.forEach((fresh, i) => {
      const old = body.children[i];
      if (old === undefined) body.append(fresh);
      else if (!old.isEqualNode(fresh)) old.replaceWith(fresh);
    });
    while (body.children.length > list.length) body.lastChild.remove();
    if (held !== null && !held.isConnected) [...body.querySelectorAll(held.localName)].find((one) => one.isEqualNode(held))?.focus({ preventScroll: true });
    nothing.hidden = list.length > 0;
    scroll.hidden = list.length === 0;
  };
  rows([]);
  nothing.hidden = true; // not before it is known
  return { place, rows };
}

export function row(columns, ...cells) {
  return h('tr', {}, cells.map((cell, i) => h('td', { class: columns[i]?.[1] }, cell)));
}

/* A list in a table, page by page. path(cursor): where it is asked for; line(item): its row. load() begins anew, and is false where that was
 * told to be bad; more is the button for the next page. */
export function paged(grid, told, signal, path, line) {
  const more = button(text('more'), () => heard(told, signal, load(list.next)), { class: 'quiet', hidden: true });
  const list = { items: [], next: null, more, load };
  let added = 0; // pages that were asked for by "more"
  let asked = 0; // how often, and the last of these that what is shown rests on
  let known = 0;
  async function load(cursor = null) {
    const wanted = path(cursor);
    const had = added;
    asked += 1;
    const mine = asked;
    const answer = await ask('GET', wanted, { signal });
    // Something else is wanted by now or has been heard since, this page has come already, or one more has, which is not to go again.
    if (mine < known || wanted !== path(cursor) || (cursor === null ? had !== added : cursor !== list.next)) return false;
    if (!answer.ok) {
      told.bad(answer);
      return false;
    }
    known = mine;
    if (cursor !== null) added += 1;
    list.items = cursor === null ? answer.body.items : [...list.items, ...answer.body.items];
    list.next = answer.body.next;
    more.hidden = list.next === null;
    grid.rows(list.items.map(line));
    return true;
  }
  /* One of them has changed: what was asked for before says nothing of that. */
  list.put = (item) => {
    known = asked + 1;
    list.items = list.items.map((one) => (one.id === item.id ? item : one));
  };
  return list;
}

const KINDS = { open: 'good', upcoming: 'accent', paused: 'warn', sold_out: 'bad', closed: '', held: 'warn', paid: 'good', refund_due: 'bad', expired: '', cancelled: '' };

export function stateChip(state) {
  return h('span', { class: `chip ${KINDS[state] ?? ''}`, 'data-state': state }, text(`state.${state}`));
}

/* A name as its owner wrote it. */
export function named(name, properties = {}) {
  return said(name, { class: 'name', ...properties });
}

/* A heading with what can be done beside it. */
export function heading(title, ...beside) {
  return h('div', { class: 'heading' }, h('h1', {}, title), h('div', { class: 'row' }, beside));
}

/* Works every so often, one at a time, and not while nobody looks. What it returns works at once, or again after what is under way. */
export function repeat(ms, signal, told, work) {
  let busy = false;
  let again = false;
  const turn = async () => {
    if (busy || document.hidden || signal.aborted) return;
    busy = true;
    try {
      do {
        again = false;
        await heard(told, signal, work());
      } while (again && !signal.aborted);
    } finally {
      busy = false;
    }
  };
  const timer = setInterval(turn, ms);
  document.addEventListener('visibilitychange', turn, { signal });
  signal.addEventListener('abort', () => clearInterval(timer), { once: true });
  turn();
  return () => {
    again = busy;
    return turn();
  };
}
