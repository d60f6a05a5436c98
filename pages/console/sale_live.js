/* One sale as it happens: an event a second from the server, and what the ledger says of its orders. */

import { Unreachable, ask, session, stream } from '../shared/api.js';
import { clockNow, pause } from '../shared/clock.js';
import { h, say } from '../shared/dom.js';
import { count, moment, money } from '../shared/format.js';
import { text, textHas } from '../shared/text.js';
import { ordersText, save } from './export.js';
import { act, announce, button, dialog, heading, named, outcome, problemText, repeat, row, stateChip, table } from './parts.js';
import { plot } from './plot.js';
import { clockTime, duration, microseconds, soldOutIn } from './rates.js';
import { Restock } from './restock.js';
import { stockBar } from './sales.js';

const WINDOW_S = 120; // that a curve shows at most
const WINDOW_S_MIN = 30;
const RATE_S = 5; // of "a second" in the table of reasons
const ORDERS_SHOWN = 15;
const AGAIN_MS = 2000;

/* A number with its name. data-value has it as it is, for whoever compares. */
function tile(name) {
  const value = h('dd', { 'data-number': name }, '–');
  const note = h('dd', { class: 'note' });
  const place = h('div', { class: 'tile', id: `tile-${name}` }, h('dt', {}, text(`live.${name}`)), value, note);
  return {
    place,
    set(shown, raw, more = '') {
      say(value, shown);
      value.dataset.value = raw ?? '';
      say(note, more);
    },
  };
}

function tilesMake() {
  const names = ['available', 'sold_out_in', 'requests', 'wins', 'refusals', 'time_to_sell_out', 'p50', 'p99', 'held', 'sold'];
  return Object.fromEntries(names.map((name) => [name, tile(name)]));
}

/* Answers by their verdict, most first; a bar for each as a share of the most. */
function reasonsMake() {
  const columns = [['live.answer', 'wide'], ['live.bar', 'bar'], ['live.total', 'end'], ['live.a_second', 'end']];
  const grid = table(text('live.answers'), columns, text('live.no_answers'));
  const past = []; // { at, verdicts }
  const show = (verdicts, at) => {
    past.push({ at, verdicts });
    while (past.length > 1 && past[0].at < at - RATE_S * 1000) past.shift();
    const [first] = past;
    const seconds = Math.max(1, (at - first.at) / 1000);
    const rows = Object.entries(verdicts).sort((a, b) => b[1] - a[1]);
    const most = rows[0]?.[1] ?? 1;
    grid.rows(rows.map(([word, total]) => {
      const line = row(columns, h('span', { class: `verdict ${word === 'WON' ? 'win' : ''}` }, textHas(`verdict.${word}`) ? text(`verdict.${word}`) : word),
        h('span', { class: 'share', 'aria-hidden': 'true', vars: { '--share': total / most } }), count(total),
        count(Math.round((total - (first.verdicts[word] ?? 0)) / seconds)));
      line.dataset.verdict = word;
      line.dataset.total = total;
      return line;
    }));
  };
  return { place: h('section', { class: 'card flush', id: 'answers' }, h('h2', { class: 'pad' }, text('live.answers')), grid.place), show };
}

function ordersMake(sale, signal) {
  const columns = [['order.no', ''], ['order.buyer', 'wide'], ['order.units', 'end'], ['order.amount', 'end'], ['order.state', ''], ['order.won_at', '']];
  const grid = table(text('live.orders'), columns, text('live.no_orders'));
  const load = async () => {
    const answer = await ask('GET', `/v1/orders?sale=${sale.id}&limit=${ORDERS_SHOWN}`, { signal });
    if (!answer.ok) return;
    grid.rows(answer.body.items.map((order) => row(columns, h('code', {}, order.no), named(order.buyer), count(order.units),
      money(order.amount, sale.currency) ?? '–', stateChip(order.state), clockTime(order.won_at))));
  };
  return { place: h('section', { class: 'card flush', id: 'orders' }, h('h2', { class: 'pad' }, text('live.orders')), grid.place), load };
}

async function exportOrders(pressed, sale, told, signal) {
  pressed.setAttribute('aria-disabled', 'true');
  try {
    const got = await ordersText(sale.id, (orders) => told.good(text('export.at', { orders: count(orders) })), signal);
    if (!got.ok) {
      told.bad(got);
    } else {
      save(`orders-${sale.id}.csv`, got.text);
      told.good(text('export.done'));
    }
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    told.bad(error);
  } finally {
    pressed.removeAttribute('aria-disabled');
  }
}

/* What can be done with it, as its state allows. */
function actionsMake(sale, told, changed, restock, signal) {
  const place = h('div', { class: 'row', id: 'actions' });
  const go = async (pressed, path, body, method = 'POST') => {
    told.clear();
    const answer = await act(pressed, told, method, `/v1/sales/${sale.id}${path}`, body);
    if (answer !== null) changed(answer.body);
  };
  const all = {
    open: button(text('action.open'), (b) => go(b, '', { opens_at: new Date(clockNow()).toISOString() }, 'PATCH'), { class: 'primary', id: 'open' }),
    pause: button(text('action.pause'), (b) => go(b, '/pause'), { id: 'pause' }),
    resume: button(text('action.resume'), (b) => go(b, '/resume'), { class: 'primary', id: 'resume' }),
    restock: button(text('action.restock'), () => restock.press(), { id: 'restock' }),
    edit: h('a', { class: 'button', href: `/console/edit/${sale.id}`, id: 'edit' }, text('action.edit')),
    close: button(text('action.close'), async (b) => {
      const yes = await dialog({ title: text('close.title'), fields: [h('p', {}, text('close.why'))], accept: text('action.close'), danger: true });
      if (yes) go(b, '/close');
    }, { class: 'danger', id: 'close' }),
    export: button(text('action.export'), (b) => exportOrders(b, sale, told, signal), { id: 'export' }),
  };
  const may = {
    upcoming: ['open', 'pause', 'restock', 'edit', 'close', 'export'], open: ['pause', 'restock', 'edit', 'close', 'export'],
    paused: ['resume', 'restock', 'edit', 'close', 'export'], sold_out: ['restock', 'pause', 'edit', 'close', 'export'], closed: ['export'],
  };
  let shown = null;
  return {
    place,
    show(state) {
      if (state === shown) return;
      const focused = place.contains(document.activeElement);
      shown = state;
      place.replaceChildren(...may[state].map((name) => all[name]));
      if (focused) (place.querySelector('button, a') ?? place).focus();
    },
  };
}

/* Everything that is shown of the sale, and how an event or the ledger's numbers change it. */
class Live {
  constructor(sale, told, signal) {
    this.sale = sale;
    this.signal = signal;
    this.at = 0;
    this.rates = [];
    this.stock = [];
    this.latencies = [];
    this.tiles = tilesMake();
    this.reasons = reasonsMake();
    this.orders = ordersMake(sale, signal);
    const changed = (fresh) => this.changed(fresh);
    this.restock = new Restock(sale.id, told, changed, signal);
    this.actions = actionsMake(sale, told, changed, this.restock, signal);
    this.chip = h('span', { id: 'sale-state' });
    this.link = h('span', { class: 'chip', id: 'link' });
    this.bar = h('div', { class: 'stock-bar' });
    const kinds = (names, of) => names.map((name) => ({ name, label: text(`live.${name}`), kind: of[name] ?? name }));
    this.plots = {
      rates: plot({ title: text('live.rates'), id: 'plot-rates', filled: 'requests', series: kinds(['requests', 'refusals', 'wins'], {}) }),
      stock: plot({ title: text('live.stock'), id: 'plot-stock', filled: 'available', series: kinds(['available'], { available: 'wins' }) }),
      latency: plot({ title: text('live.latency'), id: 'plot-latency', format: microseconds,
        series: kinds(['p50', 'p90', 'p99', 'p999'], { p50: 'wins', p90: 'requests', p99: 'refusals', p999: 'worst' }) }),
    };
  }

  linked(key, kind) {
    say(this.link, text(`link.${key}`));
    this.link.className = `chip ${kind}`;
    this.link.dataset.link = key;
  }

  /* The sale as a seller's own change has left it. */
  changed(sale) {
    announce(text('state.now', { state: text(`state.${sale.state}`) }));
    Object.assign(this.sale, sale);
    this.counts(sale, Date.parse(sale.now));
  }

  /* Two sources tell of them; the younger word counts. */
  counts(now, at) {
    if (at < this.at) return;
    this.at = at;
    const { state, offered, available, held, sold } = now;
    if (this.state !== state) {
      if (this.state !== undefined) announce(text('state.now', { state: text(`state.${state}`) }));
      this.state = state;
      this.chip.replaceChildren(stateChip(state));
      this.actions.show(state);
    }
    this.offered = offered;
    this.restock.heard(now, at);
    this.bar.replaceChildren(stockBar({ offered, available, held, sold }));
    this.tiles.available.set(count(available), available, text('live.of', { offered: count(offered) }));
    this.tiles.held.set(count(held), held);
    this.tiles.sold.set(count(sold), sold, this.ordersMade);
    this.stock.push({ at, values: { available } });
    const left = state === 'open' ? soldOutIn(this.stock) : null;
    this.tiles.sold_out_in.set(left === null ? '–' : duration(left), left === null ? '' : Math.round(left),
      left === null ? '' : text('live.at_this_rate'));
  }

  event(event) {
    const at = Date.parse(event.now);
    const { requests, wins, refusals } = event.second;
    this.counts(event, at);
    const second = Date.parse(event.second.at);
    if (second > (this.rates.at(-1)?.at ?? 0)) this.rates.push({ at: second, values: { requests, wins, refusals } });
    for (const [name, value] of Object.entries({ requests, wins, refusals })) this.tiles[name].set(count(value), value);
    const latency = event.latency_us ?? { p50: null, p90: null, p99: null, p999: null };
    this.latencies.push({ at, values: latency });
    if (event.latency_us !== null) for (const name of ['p50', 'p99']) this.tiles[name].set(microseconds(latency[name]), latency[name], text('live.last_second'));
    this.reasons.show(event.verdicts, at);
    this.draw(at);
  }

  draw(at) {
    for (const points of [this.rates, this.stock, this.latencies]) {
      while (points.length > 0 && points[0].at < at - WINDOW_S * 1000) points.shift();
    }
    // What was before the first who came need not be seen.
    const first = this.rates.find((point) => point.values.requests > 0)?.at ?? at;
    const begin = Math.min(at - WINDOW_S_MIN * 1000, Math.max(at - WINDOW_S * 1000, first - 2000));
    this.plots.rates.draw(this.rates, begin, at);
    this.plots.stock.draw(this.stock, begin, at, this.offered);
    this.plots.latency.draw(this.latencies, begin, at);
  }

  /* What was before the page was opened, where it can be known: wins took one unit each, and nothing came back. */
  before(stats) {
    const at = Date.parse(stats.now);
    this.rates = stats.series.slice(0, -1).map((second) => ({ at: Date.parse(second.at), values: { requests: second.requests, wins: second.wins, refusals: second.refusals } }));
    if (stats.sale.units_per_grab_max === 1 && stats.holds.returned_units === 0) {
      let available = stats.sale.available;
      this.stock = stats.series.toReversed().map((second) => {
        const point = { at: Date.parse(second.at), values: { available } };
        available = Math.min(stats.sale.offered, available + second.wins);
        return point;
      }).reverse();
    }
    this.reasons.show(stats.verdicts, at);
    this.draw(at);
  }

  numbers(stats) {
    const ms = stats.time_to_sell_out_ms;
    this.tiles.time_to_sell_out.set(ms === null ? '–' : duration(ms / 1000), ms, stats.sold_out_at === null ? '' : clockTime(stats.sold_out_at));
    const { held, paid, cancelled, expired, refund_due: refund } = stats.orders;
    this.ordersMade = text('live.orders_made', { orders: count(held.orders + paid.orders + cancelled.orders + expired.orders + refund.orders) });
    if (stats.latency_us !== null && this.latencies.at(-1)?.values.p50 == null)
      for (const name of ['p50', 'p99']) this.tiles[name].set(microseconds(stats.latency_us[name]), stats.latency_us[name], text('live.since_start'));
    this.counts(stats.sale, Date.parse(stats.now));
  }

  get elements() {
    const { sale } = this;
    const times = [text('live.opens', { at: moment(Date.parse(sale.opens_at), clockNow()) })];
    if (sale.closes_at !== null) times.push(text('live.closes', { at: moment(Date.parse(sale.closes_at), clockNow()) }));
    return [
      h('p', { class: 'soft facts' }, h('span', {}, text('live.id', { id: sale.id })), session().role === 'admin' && named(sale.seller),
        ...times.map((one) => h('span', {}, one)), h('a', { href: `/s/${sale.id}` }, text('live.store'))),
      this.bar,
      h('dl', { class: 'tiles' }, Object.values(this.tiles).map(({ place }) => place)),
      h('div', { class: 'plots' }, this.plots.rates.place, this.plots.stock.place, this.plots.latency.place, this.reasons.place),
      this.orders.place,
    ];
  }
}

/* A signal that ends when the page is hidden, or for good. A browser has few connections to one server, for all its tabs together. */
function whileSeen(signal) {
  const ends = new AbortController();
  document.addEventListener('visibilitychange', () => { if (document.hidden) ends.abort(); }, { signal: AbortSignal.any([signal, ends.signal]) });
  return AbortSignal.any([signal, ends.signal]);
}

function untilSeen(signal) {
  return new Promise((done) => {
    const look = () => { if (!document.hidden || signal.aborted) done(); };
    document.addEventListener('visibilitychange', look, { signal });
    signal.addEventListener('abort', look, { once: true });
    look();
  });
}

/* Watches until the sale is over or nobody looks any more; comes again where the server was lost, or the page was hidden. */
async function watch(live, refresh) {
  for (let again = false; ; again = true) {
    await untilSeen(live.signal);
    if (live.signal.aborted) return;
    let reason = null;
    const signal = whileSeen(live.signal);
    try {
      if (again) {
        const missed = await ask('GET', `/v1/sales/${live.sale.id}/stats?seconds=${WINDOW_S}`, { signal });
        if (missed.ok) live.before(missed.body);
      }
      const answer = await stream(`/v1/sales/${live.sale.id}/live`, (type, data) => {
        live.linked('live', 'good');
        if (type === 'end') reason = data.reason;
        else live.event(data);
      }, signal);
      if (answer.status === 204 || reason === 'closed') {
        live.linked('over', '');
        await refresh();
        return;
      }
      if (!answer.ok && answer.status !== 503 && answer.status !== 429) return;
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
    }
    if (live.signal.aborted) return;
    live.linked('lost', 'warn');
    await pause(AGAIN_MS, live.signal);
  }
}

export async function saleView(place, parameters, signal) {
  const id = encodeURIComponent(parameters.sale);
  const told = outcome();
  const answer = await ask('GET', `/v1/sales/${id}/stats?seconds=${WINDOW_S}`, { signal });
  if (signal.aborted) return;
  if (!answer.ok) {
    place.append(heading(text('menu.sales')), h('p', { class: 'notice bad', role: 'alert' }, problemText(answer)), h('p', {}, h('a', { href: '/console' }, text('back'))));
    return;
  }
  const live = new Live(answer.body.sale, told, signal);
  place.append(heading(named(live.sale.name), live.chip, live.link), live.actions.place, told.place, ...live.elements);
  document.title = `${live.sale.name} · ${text('title')}`;
  live.before(answer.body);
  live.numbers(answer.body);
  const refresh = async () => {
    const fresh = await ask('GET', `/v1/sales/${id}/stats?seconds=1`, { signal });
    if (fresh.ok) live.numbers(fresh.body);
    if (fresh.ok) live.reasons.show(fresh.body.verdicts, Date.parse(fresh.body.now));
    await live.orders.load();
  };
  const silent = { bad() {} }; // the state of the link says it
  repeat(2500, signal, silent, () => (live.link.dataset.link === 'over' ? undefined : refresh()));
  if (live.sale.state === 'closed') live.linked('over', '');
  watch(live, refresh);
}
