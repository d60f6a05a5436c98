/* One sale, and the button. */

import { ask, session, Unreachable } from '../shared/api.js';
import { clockIsOld, clockNow, every, pause, pauseUnseen } from '../shared/clock.js';
import { h, said, say, show } from '../shared/dom.js';
import { clockText, count, money, moment } from '../shared/format.js';
import { routeGo } from '../shared/route.js';
import { text } from '../shared/text.js';
import { Attempt } from './attempt.js';
import { awake } from './awake.js';
import { announce, loginPath, problemText, titled } from './frame.js';
import { missingView } from './missing.js';
import { orderCard, payLeft, siteTerms, siteTermsKnown } from './order.js';
import { poster } from './poster.js';
import { chip, countdownText, stateNow, stockBar } from './stock.js';

/* How often the sale is looked at: often when something may happen. */
const LOOK_MS = { open: 2000, sold_out: 3000, paused: 4000, upcoming: 5000, closed: 20000 };
const ANNOUNCED_S = [60, 30, 10, 3];
/* Up to so many units are chosen from a list; more are written. */
const CHOICES_MAX = 20;
/* How often somebody who stands in line is told how far they have come. */
const PLACE_TOLD_MS = 15000;

/* States in which the button itself says what a refusal could. */
const OWN_WORDS = new Set(['won', 'yours', 'paused', 'closed']);
/* States after which what was refused before may be had. */
const ENDED = new Set(['wait', 'paused', 'sold_out', 'closed']);

function activeOrders(orders) {
  return orders.filter((order) => order.state === 'held' || order.state === 'paid');
}

/* What the button is: the first of these that is true. */
export function buttonState({ sale, user, attempt, orders }) {
  const state = stateNow(sale);
  const open = sale.admission === 'open';
  if (attempt.phase === 'line') return attempt.placeIsOld() ? 'asking' : 'line';
  if (attempt.phase === 'asking' || attempt.phase === 'again') return attempt.phase;
  const mine = activeOrders(orders);
  if (mine.length >= sale.grabs_per_buyer_max && mine.length > 0) return mine.some((order) => order.no === attempt.won()?.no) ? 'won' : 'yours';
  if (state === 'closed' || state === 'sold_out') return state;
  if (user === null && !open) return 'login';
  if (user !== null && user.role !== 'customer' && !open) return 'role';
  if (state === 'open' && attempt.slowUntil() > clockNow()) return 'slow';
  return { upcoming: 'wait', paused: 'paused', open: 'grab' }[state];
}

class SalePage {
  constructor(place, sale, signal) {
    this.place = place;
    this.sale = sale;
    this.signal = signal;
    this.user = session();
    this.orders = [];
    this.cards = [];
    this.drawn = '';
    this.terms = { demo_payments: false };
    this.trouble = false;
    this.ordersKnown = false;
    this.ordersAsked = 0; // how often
    this.ordersHeard = 0; // the last of these that what is shown rests on
    this.ordersPending = 0;
    this.looksAsked = 0; // the same of the sale itself
    this.looksHeard = 0;
    this.attempt = new Attempt(sale, signal, () => this.attempted());
    this.build();
  }

  build() {
    const { sale } = this;
    this.bar = stockBar();
    this.chip = h('div', { class: 'row' });
    this.count = h('p', { class: 'countdown number', role: 'timer', 'aria-live': 'off', hidden: true });
    this.countWords = h('p', { class: 'soft countdown-words', hidden: true });
    this.label = h('span', { class: 'grab-label' });
    this.more = h('span', { class: 'grab-more' });
    this.button = h('button', { type: 'button', id: 'grab', class: 'primary big grab', on: { click: () => this.press() } }, this.label, this.more);
    this.outcome = h('p', { id: 'outcome', class: 'notice', hidden: true });
    this.second = h('button', { type: 'button', id: 'leave', class: 'quiet', hidden: true, on: { click: () => this.attempt.leave() } });
    this.offline = h('p', { class: 'notice warn', id: 'offline', hidden: true }, text('offline'));
    this.mine = h('section', { 'aria-label': text('mine'), class: 'stack', hidden: true });
    this.name = h('h1', {}, said(sale.name));
    this.description = h('p', { class: 'description', dir: 'auto' });
    this.price = h('p', { class: 'price big-price' });
    const most = sale.units_per_grab_max;
    this.units = most > CHOICES_MAX ? h('input', { id: 'units', name: 'units', type: 'number', min: 1, max: most, step: 1, value: 1, inputmode: 'numeric' })
      : h('select', { id: 'units', name: 'units' }, Array.from({ length: most }, (_, i) => h('option', { value: i + 1 }, count(i + 1))));
    this.unitsField = h('div', { class: 'field units' }, h('label', { for: 'units' }, text('units')), this.units);
    this.facts = h('dl', { class: 'facts-list' });
    this.place.append(h('article', { class: 'sale' },
      h('div', { class: 'sale-picture' }, poster(sale)),
      h('div', { class: 'sale-text stack' },
        this.chip, this.name, h('p', { class: 'soft' }, text('by'), ' ', said(sale.seller)), this.price,
        h('div', { class: 'buy card stack' }, this.bar.element, this.countWords, this.count, this.unitsField, this.button, this.outcome, this.second, this.offline),
        this.mine),
      h('div', { class: 'sale-more stack' }, this.description, this.facts)));
  }

  press() {
    switch (this.state) {
      case 'login':
        routeGo(loginPath());
        break;
      case 'grab':
        if (this.units.reportValidity()) this.attempt.grab(Number(this.units.value || 1));
        break;
      case 'won':
      case 'yours': {
        const held = this.orders.find((order) => order.state === 'held');
        if (held && this.terms.demo_payments && this.user !== null) routeGo(`/pay/${held.no}`);
        break;
      }
      default:
    }
  }

  /* The attempt has come further. */
  attempted() {
    const { phase, order } = this.attempt;
    if (phase === 'won' || phase === 'yours') {
      if (order) {
        this.orders = [order, ...this.orders.filter((each) => each.no !== order.no)];
        this.ordersHeard = this.ordersAsked + 1;
      }
      this.drawOrders();
      this.quietly(this.loadOrders());
    }
    if (phase === 'won' || phase === 'yours' || phase === 'refused') this.quietly(this.look(true));
    this.update();
  }

  /* What fails here is asked again by and by. */
  quietly(work) {
    return work.catch((error) => { if (!(error instanceof Unreachable)) throw error; });
  }

  drawOrders() {
    const shown = JSON.stringify([this.orders, this.terms]);
    if (this.drawn === shown) return;
    this.drawn = shown;
    const known = this.user !== null && this.sale.admission !== 'open';
    const cards = this.orders.map((order) => orderCard(order, { sale: this.sale, terms: this.terms, changed: () => this.quietly(this.loadOrders()), actions: known, here: true }));
    this.cards = cards;
    const { pay, cancel } = this.mine.contains(document.activeElement) ? document.activeElement.dataset : {};
    this.mine.replaceChildren(...cards.map((card) => card.element));
    if (pay) this.mine.querySelector(`[data-pay="${CSS.escape(pay)}"]`)?.focus({ preventScroll: true });
    if (cancel) this.mine.querySelector(`[data-cancel="${CSS.escape(cancel)}"]`)?.focus({ preventScroll: true });
    show(this.mine, cards.length > 0);
  }

  /* Orders of this sale: from the server for whoever is logged in, else what this browser has won. Answers may overtake each other, and a win
   * may overtake them: one that was asked for before says nothing any more. */
  async loadOrders() {
    if (this.sale.admission === 'open') {
      const won = this.attempt.won();
      this.orders = won === null || (won.pay_by !== null && payLeft(won) < 0) ? [] : [won]; // nobody tells what became of it
    } else if (this.user?.role === 'customer') {
      this.ordersAsked += 1;
      this.ordersPending += 1;
      const asked = this.ordersAsked;
      const answer = await ask('GET', `/v1/orders?sale=${this.sale.id}&limit=50`, { signal: this.signal }).finally(() => { this.ordersPending -= 1; });
      if (!answer.ok || asked < this.ordersHeard) return;
      this.ordersHeard = asked;
      this.orders = answer.body.items;
    }
    this.ordersKnown = true;
    this.drawOrders();
    this.update();
  }

  async loadTerms() {
    this.terms = await siteTerms();
    this.drawOrders();
    this.update();
  }

  /* The sale as it stands now; where it is the same as before, only that is said, and no time. Answers may overtake each other: one that was
   * asked for before what is shown says nothing any more. */
  async look(fresh = false) {
    this.looksAsked += 1;
    const asked = this.looksAsked;
    const answer = await ask('GET', `/v1/sales/${this.sale.id}`, { etag: fresh || clockIsOld() ? null : this.etag, signal: this.signal });
    if (!answer.ok) return false;
    if (asked < this.looksHeard) return true;
    this.looksHeard = asked;
    if (answer.status === 304) return true;
    this.etag = answer.etag;
    this.sale = answer.body;
    this.attempt.sale = answer.body;
    this.update();
    return true;
  }

  async watch() {
    while (!this.signal.aborted) {
      const state = stateNow(this.sale);
      const soon = state === 'upcoming' && Date.parse(this.sale.opens_at) - clockNow() < 15000;
      await pauseUnseen((soon ? 2000 : LOOK_MS[state]) * (0.85 + Math.random() * 0.3), this.signal);
      if (document.hidden || this.signal.aborted) continue;
      try {
        this.trouble = !await this.look();
        const wanted = !this.ordersKnown || this.orders.some((order) => order.state === 'held');
        if (wanted && this.ordersPending === 0) await this.loadOrders();
        if (!siteTermsKnown()) await this.quietly(this.loadTerms());
      } catch (error) {
        if (!(error instanceof Unreachable)) throw error;
        this.trouble = true;
      }
      this.update();
    }
  }

  /* Everything that follows from what is known, also as time goes by. */
  update() {
    if (this.signal.aborted) return;
    const { sale } = this;
    const state = stateNow(sale);
    if (this.chip.dataset.state !== state) {
      this.chip.dataset.state = state;
      this.chip.replaceChildren(chip(state));
    }
    const name = this.name.firstChild;
    say(name, sale.name);
    say(this.description, sale.description ?? '');
    show(this.description, Boolean(sale.description));
    say(this.price, money(sale.price, sale.currency) ?? text('free'));
    this.bar.update(sale);
    this.updateCount(state);
    this.updateButton();
    this.updateFacts();
    show(this.offline, this.trouble);
    for (const card of this.cards) card.tick();
  }

  updateCount(state) {
    const until = state === 'upcoming' ? Date.parse(this.sale.opens_at) : state === 'open' && this.sale.closes_at !== null ? Date.parse(this.sale.closes_at) : null;
    show(this.count, until !== null);
    show(this.countWords, until !== null);
    if (until === null) return;
    const left = until - clockNow();
    say(this.countWords, text(state === 'upcoming' ? 'opens' : 'closes', { time: moment(until) }));
    say(this.count, countdownText(left));
    this.count.classList.toggle('near', left < 10000);
    const seconds = Math.ceil(left / 1000);
    if (state === 'upcoming' && ANNOUNCED_S.includes(seconds) && this.announced !== seconds) {
      this.announced = seconds;
      announce(text('announce.opens', { seconds }));
    }
  }

  updateButton() {
    const { attempt, sale } = this;
    const next = buttonState(this);
    const words = this.words(next);
    const active = words.active === true;
    say(this.label, words.label);
    say(this.more, words.more ?? '');
    show(this.more, Boolean(words.more));
    this.button.setAttribute('aria-disabled', String(!active));
    this.button.dataset.state = next;
    const pick = (next === 'grab' || next === 'wait') && sale.units_per_grab_max > 1;
    show(this.unitsField, pick);
    say(this.second, text(next === 'again' ? 'stop' : 'leave'));
    show(this.second, attempt.phase === 'line' || attempt.canStop());
    if (next === 'grab' && ENDED.has(this.state)) attempt.forget(); // it is on sale again
    const code = attempt.phase === 'refused' && !OWN_WORDS.has(next) ? attempt.code : null;
    const fewer = code === 'SOLD_OUT' && next === 'grab' && attempt.units > 1;
    say(this.outcome, code === null ? words.note ?? '' : problemText(fewer ? 'FEWER_LEFT' : code));
    this.outcome.className = `notice ${code === null ? words.tone ?? '' : 'warn'}`;
    show(this.outcome, this.outcome.textContent !== '');
    if (this.state !== next) {
      if (this.state !== undefined) announce([words.label, words.spoken ?? words.more, this.outcome.textContent].filter(Boolean).join('. '));
      this.state = next;
      this.placeTold = clockNow();
    } else if (next === 'line' && clockNow() - this.placeTold > PLACE_TOLD_MS) {
      this.placeTold = clockNow();
      announce(`${words.label}. ${words.more}`);
    }
  }

  /* What the button says in each state: label, a second line, whether it can be pressed, and a note below. */
  words(state) {
    const { attempt, sale } = this;
    const price = money(sale.price, sale.currency);
    switch (state) {
      case 'login':
        return { label: text('button.login'), active: true };
      case 'role':
        return { label: text('button.role') };
      case 'wait':
        return { label: text('button.wait'), more: countdownText(Date.parse(sale.opens_at) - clockNow()), spoken: '' };
      case 'grab': {
        const total = price === null ? null : money(sale.price * Number(this.units.value || 1), sale.currency);
        const again = attempt.phase === 'won' && activeOrders(this.orders).length > 0 ? { note: text('won.more'), tone: 'good' } : {};
        return { label: text('button.grab'), more: total, active: true, ...again };
      }
      case 'asking':
        return { label: text(attempt.phase === 'line' ? 'button.line.look' : 'button.asking'), more: text('button.asking.more') };
      case 'again':
        return { label: text(`button.again.${attempt.reason}`), more: text('button.again.more', { seconds: Math.max(0, Math.ceil((attempt.until - clockNow()) / 1000)) }),
          spoken: text('safe'), note: text('safe') };
      case 'line': {
        const { position, wait_ms: wait, hopeless } = attempt.place;
        const note = text(hopeless ? 'line.hopeless' : 'line.stay');
        return { label: text('button.line', { position: count(position) }), more: text('button.line.more', { time: clockText(wait) }),
          note: attempt.lost ? `${text('line.lost')} ${note}` : note, tone: hopeless || attempt.lost ? 'warn' : '' };
      }
      case 'won':
      case 'yours':
        return this.ownWords(state);
      case 'slow':
        return { label: text('button.slow'), more: text('button.slow.more', { seconds: Math.max(1, Math.ceil((attempt.slowUntil() - clockNow()) / 1000)) }), spoken: '' };
      case 'sold_out':
        return { label: text('button.sold_out'), note: sale.held > 0 ? text('sold_out.held', { held: count(sale.held) }) : '' };
      case 'paused':
        return { label: text('button.paused'), note: text('paused.more') };
      default:
        return { label: text('button.closed') };
    }
  }

  ownWords(state) {
    const held = this.orders.find((order) => order.state === 'held');
    const order = held ?? activeOrders(this.orders)[0];
    const number = text('order.no', { no: order.no });
    const label = text(state === 'won' ? 'button.won' : 'button.yours');
    if (held === undefined || held.pay_by === null) return { label, more: number, tone: 'good' };
    const time = clockText(payLeft(held));
    const pays = this.terms.demo_payments && this.user !== null;
    return { label, more: `${number} · ${text(pays ? 'button.pay' : 'pay.left', { time })}`, active: pays, spoken: `${number}. ${text('pay.left', { time })}` };
  }

  updateFacts() {
    const { sale } = this;
    const rows = [
      [text('fact.opens'), moment(sale.opens_at)],
      sale.closes_at === null ? null : [text('fact.closes'), moment(sale.closes_at)],
      [text('fact.limit'), text('fact.limit.value', { grabs: count(sale.grabs_per_buyer_max), units: count(sale.units_per_grab_max) })],
      sale.pay_within_s === null ? null : [text('fact.pay'), clockText(sale.pay_within_s * 1000)],
      [text('fact.admission'), text(`admission.${sale.admission}`)],
    ].filter(Boolean);
    const shown = JSON.stringify(rows);
    if (this.factsShown === shown) return;
    this.factsShown = shown;
    this.facts.replaceChildren(...rows.flatMap(([term, value]) => [h('dt', {}, term), h('dd', {}, value)]));
  }
}

export function saleView(place, { sale: id }, signal) {
  titled(text('sales'));
  const waiting = h('p', { class: 'soft' }, text('loading'));
  place.append(waiting);
  return (async () => {
    for (let first = true; !signal.aborted; first = false) {
      try {
        const answer = await ask('GET', `/v1/sales/${encodeURIComponent(id)}`, { signal });
        if (signal.aborted) return;
        if (answer.status === 404) {
          place.replaceChildren();
          missingView(place);
          return;
        }
        if (answer.ok) {
          place.replaceChildren();
          begin(place, answer, signal);
          return;
        }
      } catch (error) {
        if (!(error instanceof Unreachable)) throw error;
      }
      if (first) say(waiting, text('offline'));
      await pause(2000, signal);
    }
  })();
}

function begin(place, answer, signal) {
  titled(answer.body.name);
  const page = new SalePage(place, answer.body, signal);
  page.etag = answer.etag;
  page.update();
  every(200, signal, () => page.update());
  // What was true when the page was hidden is not shown for a moment when it is not.
  document.addEventListener('visibilitychange', () => { if (!document.hidden) page.update(); }, { signal });
  awake(signal, () => page.attempt.running && page.sale.admission === 'line');
  page.quietly(page.loadTerms());
  page.quietly(page.loadOrders());
  page.attempt.resume();
  page.watch();
}
