/* The interface of the server, as docs/api.md has it, and who is logged in.
 *
 * The login is in the storage of this origin and goes along as a header. There is no cookie, so no other site can make a browser
 * act in somebody's name. The storefront and the console have logins of their own: a seller may buy as somebody else. */

import { clockLearn, either } from './clock.js';
import { keptDrop, keptGet, keptSet } from './kept.js';

const TIMEOUT_MS = 15000;
const site = document.documentElement.dataset.site;
const SESSION = `stampede.session.${site}`;
const listeners = new Set();

/* Nobody knows whether the server heard it. */
export class Unreachable extends Error {}

/* { name, role, token, expires_at }, or null. */
export function session() {
  const kept = keptGet(SESSION);
  return kept !== null && typeof kept.token === 'string' && typeof kept.name === 'string' ? kept : null;
}

function told() {
  for (const listener of listeners) listener(session());
}

export function sessionStart(name, answer) {
  keptSet(SESSION, { name, role: answer.role, token: answer.token, expires_at: answer.expires_at });
  told();
}

export function sessionEnd() {
  keptDrop(SESSION);
  told();
}

/* Calls back with session() whenever it changes, in another tab too. */
export function sessionWatch(listener) {
  listeners.add(listener);
}

window.addEventListener('storage', (event) => {
  if (event.key === SESSION || event.key === null) told();
});

/* One answer: status, body (read from JSON, or null), code of a problem, etag, retryMs that it asks to wait. */
class Answer {
  constructor(response, body) {
    this.status = response.status;
    this.body = body;
    this.ok = response.status < 400;
    this.code = this.ok ? null : body?.code ?? 'FAILED';
    this.etag = response.headers.get('ETag');
    const seconds = Number(response.headers.get('Retry-After'));
    this.retryMs = Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : 0;
  }
}

/* Never throws for what the server says, only Unreachable where it says nothing.
 * body: written as JSON. key: Idempotency-Key. etag: of what is here already, for a 304. signal: ends it. */
export async function ask(method, path, { body, key, etag, signal, timeoutMs = TIMEOUT_MS, anonymous = false } = {}) {
  const who = anonymous ? null : session();
  const headers = { Accept: 'application/json' };
  if (who !== null) headers.Authorization = `Bearer ${who.token}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (key !== undefined) headers['Idempotency-Key'] = key;
  if (etag) headers['If-None-Match'] = etag;
  const late = AbortSignal.timeout(timeoutMs);
  const asked = performance.now();
  let response;
  let answer = null;
  try {
    response = await fetch(path, {
      method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: 'no-store', credentials: 'omit',
      redirect: 'error', signal: signal ? either(late, signal) : late,
    });
    const heard = performance.now();
    const text = await response.text();
    answer = text === '' ? null : JSON.parse(text);
    if (typeof answer?.now === 'string') clockLearn(answer.now, asked, heard);
  } catch (error) {
    throw new Unreachable(error.message);
  }
  // A login that has ended is forgotten, unless another has begun meanwhile.
  if (response.status === 401 && who !== null && path !== '/v1/login' && session()?.token === who.token) sessionEnd();
  return new Answer(response, answer);
}

/* Server-sent events by fetch(), because an EventSource cannot bring a login. Calls event(type, data) for each until the signal ends
 * it or the server does; then returns the Answer, whose status is 200 where there was a stream. */
export async function stream(path, event, signal) {
  const who = session();
  let response;
  try {
    response = await fetch(path, {
      headers: { Accept: 'text/event-stream', ...(who ? { Authorization: `Bearer ${who.token}` } : {}) },
      cache: 'no-store', credentials: 'omit', redirect: 'error', signal,
    });
    if (!(response.headers.get('Content-Type') ?? '').startsWith('text/event-stream')) {
      const text = await response.text();
      return new Answer(response, text === '' ? null : JSON.parse(text));
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      const blocks = (rest + piece.value).split('\n\n');
      rest = blocks.pop();
      for (const block of blocks) eventTell(block, event);
    }
  } catch (error) {
    throw new Unreachable(error.message);
  }
  return new Answer(response, null);
}

function eventTell(block, event) {
  let type = 'message';
  let data = '';
  for (const line of block.split('\n')) {
    if (line.startsWith('event:')) type = line.slice(6).trim();
    if (line.startsWith('data:')) data += line.slice(5).trim();
  }
  if (data !== '') event(type, JSON.parse(data));
}

/* Every item of a list, page by page, at most so many. */
export async function listed(path, { limit = 200, most = 1000, signal } = {}) {
  const items = [];
  let cursor = null;
  do {
    const more = `${path.includes('?') ? '&' : '?'}limit=${limit}${cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`}`;
    const answer = await ask('GET', path + more, { signal });
    if (!answer.ok) return answer;
    items.push(...answer.body.items);
    cursor = answer.body.next;
  } while (cursor !== null && items.length < most);
  return { ok: true, status: 200, code: null, items, more: cursor !== null };
}
