/* Buying, without a page: one attempt at a sale, from the click to an answer that counts.
 *
 * Before anything is sent, its Idempotency-Key is written down where a reload finds it. As long as nobody knows how the server
 * decided, the attempt goes on with that key and those units: the server answers it with the order it won, or decides now, but
 * never buys twice. Only an answer ends an attempt: a win, or a refusal that the server gives after looking at the key.
 *
 * Several tabs share what is written down. A tab that presses while another is asking goes on with the same key; one whose key is
 * not there any more has been answered elsewhere, and neither sends nor writes anything. */

import { ask, session, Unreachable } from '../shared/api.js';
import { clockForget, clockNow, either, pause } from '../shared/clock.js';
import { keptDrop, keptGet, keptSet } from '../shared/kept.js';

const AGAIN_MS_MIN = 500;
const AGAIN_MS_MAX = 8000;
/* A click at the very moment of opening may come a little early; it is asked again rather than refused. */
const EARLY_MS = 2000;
const EARLY_AGAIN_MS = 100;
const LOOK_MS_MIN = 1000;
const LOOK_MS_MAX = 4000;
/* These are said before the key is looked at: an earlier try may have won all the same. */
const BEFORE_KEY = new Set(['BLOCKED', 'FORBIDDEN', 'RATE_LIMITED', 'NOT_LOGGED_IN', 'TOKEN_EXPIRED', 'BAD_INPUT', 'BUSY', 'NOT_READY']);
/* And after these this very try may have. */
const UNDECIDED = new Set(['OUTCOME_UNKNOWN', 'FAILED']);
/* Whoever comes back later than this has not come to buy by looking: they press again, and the key is still the same. */
const GOES_ON_MS = 600000;

function keyMake() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/* Not all at the same moment again. */
function jittered(ms) {
  return ms * (0.75 + Math.random() * 0.5);
}

export class Attempt {
  /* change: called whenever phase or what stands beside it is different. signal: the page is left; the attempt itself stays. */
  constructor(sale, signal, change) {
    this.sale = sale;
    this.signal = signal;
    this.change = change;
    this.user = session()?.name ?? '';
    this.phase = 'idle';
    this.running = false;
    this.wake = () => {};
    addEventListener('online', () => this.wake(), { signal });
    document.addEventListener('visibilitychange', () => { if (!document.hidden && this.phase === 'line') this.wake(); }, { signal });
  }

  /* Under whose name it is written down. A sale that is open to all knows nobody, whoever is logged in. */
  name(kind) {
    const who = this.sale.admission === 'open' ? '' : this.user;
    return `stampede.${kind}.${encodeURIComponent(who)}.${this.sale.id}`;
  }

  kept() {
    const kept = keptGet(this.name('grab'));
    return typeof kept?.key === 'string' ? kept : null;
  }

  /* Whether what is written down is this attempt, and its buyer still the one who is logged in. */
  mine() {
    return this.kept()?.key === this.key && (session()?.name ?? '') === this.user;
  }

  keep(changes) {
    if (this.kept()?.key === this.key) keptSet(this.name('grab'), { ...this.kept(), ...changes, at: clockNow() });
  }

  /* The order that was won in this browser: { no, … }, or null. */
  won() {
    return keptGet(this.name('won'));
  }

  /* Until when the buyer was asked to wait; 0 where not. */
  slowUntil() {
    return keptGet(this.name('slow')) ?? 0;
  }

  enter(phase, more = {}) {
    if (this.signal.aborted) return;
    Object.assign(this, { order: null, code: null, until: 0, place: null, lost: false, reason: null }, more, { phase });
    this.change();
  }

  /* Goes on with what a reload or a lost connection has interrupted. */
  resume() {
    const kept = this.kept();
    if (kept === null || this.running) return;
    if (clockNow() - (kept.at ?? 0) < GOES_ON_MS) {
      this.run();
    } else if (kept.place && !kept.token) {
      keptSet(this.name('grab'), { ...kept, place: undefined }); // it is said once
      this.enter('refused', { code: 'PLACE_LOST' });
    }
  }

  /* Whether the place has not been heard of for so long that the server may have given it up. */
  placeIsOld() {
    return clockNow() - this.placeHeard >= this.place.heartbeat_ms;
  }

  grab(units) {
    if (this.running) return;
    keptSet(this.name('grab'), { key: keyMake(), ...this.kept(), units, at: clockNow() });
    this.run();
  }

  /* What was refused may be had now. */
  forget() {
    if (this.phase === 'refused') this.phase = 'idle';
  }

  /* Whether it waits to ask again, and nothing of what was asked can have won. */
  canStop() {
    return this.phase === 'again' && this.kept()?.unsure !== true;
  }

  /* Leaves the line, or stops asking. What may have been won already is not given up by it. */
  async leave() {
    const kept = this.kept();
    this.left = true;
    this.wake();
    this.leaves.abort();
    if (kept?.place || this.canStop()) keptDrop(this.name('grab'));
    if (kept?.place) await ask('DELETE', `/v1/sales/${this.sale.id}/line/${kept.place}`).catch(() => null);
  }

  async run() {
    this.running = true;
    this.left = false;
    this.tries = 0;
    this.leaves = new AbortController();
    ({ key: this.key, units: this.units } = this.kept());
    this.enter('asking');
    while (!this.signal.aborted && !this.left) {
      const again = await this.step();
      if (again === null) break;
      this.tries += 1;
      await this.wait(again);
    }
    this.running = false;
    if (this.left) this.enter('idle');
  }

  /* Waits; the network coming back is worth a try at once. */
  async wait(ms) {
    const ends = new AbortController();
    this.wake = () => ends.abort();
    await pause(ms, either(ends.signal, this.signal));
    this.wake = () => {};
  }

  /* One round; the milliseconds until the next one, or null where there is none. */
  async step() {
    if (!this.mine()) {
      this.enter('yours'); // whatever the other tab has heard stands among the orders
      return null;
    }
    try {
      const { admission } = this.sale;
      if (admission === 'line' && !this.kept().token) return await this.stand();
      if (admission === 'token' && !this.kept().token) return await this.fetchToken();
      return await this.send();
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      return this.left ? null : this.again('network', 0);
    }
  }

  again(reason, retryMs) {
    const backOff = Math.min(AGAIN_MS_MAX, AGAIN_MS_MIN * 2 ** Math.min(this.tries, 10));
    const ms = retryMs > 0 ? retryMs * (1 + Math.random() * 0.5) : jittered(backOff);
    this.enter('again', { reason, until: clockNow() + ms });
    return ms;
  }

  async send() {
    const { key, units } = this;
    const { token, unsure = false } = this.kept();
    this.enter('asking');
    this.keep({ unsure: true });
    const body = token ? { units, token } : { units };
    const answer = await ask('POST', `/v1/sales/${this.sale.id}/grabs`, { body, key, signal: this.signal });
    if (answer.status === 201) {
      keptSet(this.name('won'), answer.body.order);
      return this.end('won', { order: answer.body.order });
    }
    this.keep({ unsure: UNDECIDED.has(answer.code) || (unsure && BEFORE_KEY.has(answer.code)) });
    if (answer.code === 'TOKEN_INVALID' && token) {
      // Too old: the next round gets another.
      this.keep({ token: undefined, place: undefined });
      return 0;
    }
    return this.refused(answer, unsure);
  }

  async fetchToken() {
    this.enter('asking');
    const answer = await ask('POST', `/v1/sales/${this.sale.id}/tokens`, { signal: this.signal });
    if (!answer.ok) return this.refused(answer, this.kept()?.unsure === true);
    this.keep({ token: answer.body.token });
    return 0;
  }

  /* In line: takes a place, or looks how far it has come. The pause until the next look begins with an answer, not with another pause: timers
   * that call each other are what browsers slow down to one a minute in a tab that is not seen, which would lose the place. A machine that sleeps
   * loses it all the same; whoever comes back is told, and stands at the end, unless they were away so long that they may not want it any more. */
  async stand() {
    const path = `/v1/sales/${this.sale.id}/line`;
    const { place, at } = this.kept();
    const signal = either(this.signal, this.leaves.signal);
    const answer = place ? await ask('GET', `${path}/${place}`, { signal }) : await ask('POST', path, { signal });
    if (answer.code === 'NO_SUCH_PLACE') {
      if (clockNow() - at >= GOES_ON_MS) return this.end('refused', { code: 'PLACE_LOST' });
      this.keep({ place: undefined, lost: true });
      this.enter('asking');
      return 0;
    }
    if (!answer.ok) return this.refused(answer, this.kept()?.unsure === true);
    this.tries = 0;
    this.keep({ place: answer.body.place });
    switch (answer.body.state) {
      case 'admitted':
        this.keep({ token: answer.body.token });
        return 0;
      case 'waiting': {
        this.placeHeard = clockNow();
        this.enter('line', { place: answer.body, lost: this.kept()?.lost === true });
        const often = Math.min(LOOK_MS_MAX, answer.body.heartbeat_ms / 3, Math.max(LOOK_MS_MIN, answer.body.wait_ms / 4));
        return jittered(often);
      }
      default: {
        const codes = { timed_out: 'LINE_TIMEOUT', sold_out: 'SOLD_OUT', closed: 'CLOSED' };
        return this.end('refused', { code: codes[answer.body.state] ?? 'CLOSED' });
      }
    }
  }

  /* What an answer that is no win means for the attempt. unsure: an earlier try may have won. */
  refused(answer, unsure) {
    const early = Date.parse(this.sale.opens_at) - clockNow();
    if (answer.code === 'ALREADY_WON') return this.end('yours', { order: answer.body.order });
    if (answer.status >= 500 && answer.code !== 'LINE_TIMEOUT') return this.again('busy', answer.retryMs);
    if (answer.code === 'NOT_OPEN' && early < EARLY_MS) return this.early(early);
    if (answer.status === 401) {
      this.enter('idle'); // it goes on once its buyer has logged in again
      return null;
    }
    if (answer.code === 'RATE_LIMITED') {
      const ms = answer.retryMs || 1000;
      if (unsure) return this.again('slow', ms);
      keptSet(this.name('slow'), clockNow() + ms);
      return this.end('slow', {});
    }
    if (unsure && BEFORE_KEY.has(answer.code)) {
      this.enter('refused', { code: answer.code });
      return null;
    }
    return this.end('refused', { code: answer.code });
  }

  /* Where the clock says that it is time, and the server that it is not, the clock is wrong: it is learned anew, and nobody hurries. */
  early(ms) {
    if (ms > 0) return this.again('early', Math.max(50, ms));
    clockForget();
    return this.again('early', Math.min(AGAIN_MS_MAX, EARLY_AGAIN_MS * 2 ** Math.min(this.tries, 10)));
  }

  end(phase, more) {
    if (this.kept()?.key === this.key) keptDrop(this.name('grab'));
    this.enter(phase, more);
    return null;
  }
}
