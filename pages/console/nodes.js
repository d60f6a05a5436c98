/* The nodes of the shop: whether each is well, how much it does, and how far behind anything is. */

import { ask } from '../shared/api.js';
import { h } from '../shared/dom.js';
import { count, moment } from '../shared/format.js';
import { text, textHas } from '../shared/text.js';
import { heading, outcome, repeat } from './parts.js';
import { bytes, duration, microseconds } from './rates.js';

const KINDS = { ready: 'good', draining: 'warn', silent: 'bad', disk_failed: 'bad', no_redis: 'bad', no_number: 'bad', no_ledger: 'bad' };

/* Each: key, how it is shown, and whether it is worth a look. */
const LOADS = [
  ['connections', (node) => count(node.connections)],
  ['watchers', (node) => count(node.watchers)],
  ['line_waiting', (node) => count(node.line_waiting)],
  ['memory', (node) => bytes(node.memory_bytes)],
  ['sales', (node) => count(node.sales)],
  ['uptime', (node) => duration(node.uptime_s)],
];
const LAGS = [
  ['journal_lag', (node) => count(node.journal_lag), (node) => node.journal_lag > 10000],
  ['clerk_lag', (node) => count(node.clerk_lag), (node) => node.clerk_failing > 0 || node.clerk_lag > 1000000],
  ['webhooks', (node) => text('nodes.pending_failed', { pending: count(node.webhooks_pending), failed: count(node.webhooks_failed) }), (node) => node.webhooks_failed > 0],
  ['publish_lag', (node) => count(node.publish_lag), (node) => node.publish_failing > 0],
  ['shed_level', (node) => text(`shed.${node.shed_level}`), (node) => node.shed_level > 0],
  ['breakers', (node) => count(node.breakers_open), (node) => node.breakers_open > 0],
];
const REDIS = [
  ['redis_latency', (node) => microseconds(node.redis_latency_us), (node) => node.redis_latency_us > 100000],
  ['unfiled', (node) => count(node.unfiled), (node) => node.unfiled_oldest_s > 10],
  ['errands', (node) => count(node.errands), (node) => node.errands > 1000],
  ['rebuilds', (node) => count(node.rebuilds)],
];

function facts(title, rows, node) {
  return h('div', { class: 'facts-of' }, h('h3', {}, title), h('dl', {}, rows.map(([key, shown, bad]) =>
    h('div', { class: bad?.(node) ? 'bad' : null, 'data-fact': key }, h('dt', {}, text(`nodes.${key}`)), h('dd', {}, shown(node))))));
}

/* What it did since it was last looked at, a second. */
function rates(node, before) {
  const seconds = before === undefined ? 0 : (Date.parse(node.heard_at) - Date.parse(before.heard_at)) / 1000;
  return ['answers', 'grabs', 'wins'].map((name) => {
    const rate = seconds > 0 && node[name] >= before[name] ? Math.round((node[name] - before[name]) / seconds) : null;
    return h('div', { class: 'tile' }, h('dt', {}, text(`nodes.${name}`)), h('dd', {}, rate === null ? '–' : count(rate)),
      h('dd', { class: 'note' }, text('nodes.in_all', { all: count(node[name]) })));
  });
}

function card(node, before, shared) {
  const name = node.node === null ? text('nodes.this') : text('nodes.numbered', { node: node.node });
  return h('article', { class: 'card stack node', 'data-node': node.node ?? '', 'data-state': node.state },
    h('div', { class: 'heading' }, h('h2', {}, name), h('div', { class: 'row' },
      node.here && node.node !== null && h('span', { class: 'chip accent' }, text('nodes.here')),
      h('span', { class: `chip ${KINDS[node.state] ?? 'bad'}` }, textHas(`node.${node.state}`) ? text(`node.${node.state}`) : node.state))),
    h('p', { class: 'soft facts' }, h('code', {}, node.address), h('span', {}, text('nodes.version', { version: node.version })),
      h('span', {}, text('nodes.heard', { at: moment(Date.parse(node.heard_at)) }))),
    h('dl', { class: 'tiles small' }, rates(node, before)),
    h('div', { class: 'columns' }, facts(text('nodes.load'), LOADS, node), facts(text('nodes.lag'), LAGS, node), shared && facts(text('nodes.redis'), REDIS, node)));
}

export function nodesView(place, parameters, signal) {
  const told = outcome();
  const list = h('div', { class: 'stack' });
  let before = new Map();
  place.append(heading(text('menu.nodes')), told.place, list);
  repeat(2000, signal, told, async () => {
    const answer = await ask('GET', '/v1/nodes', { signal });
    if (!answer.ok) {
      told.bad(answer);
      return;
    }
    told.clear();
    const { items, gate } = answer.body;
    items.sort((a, b) => (a.node ?? 0) - (b.node ?? 0));
    list.replaceChildren(...items.map((node) => card(node, before.get(node.node), gate === 'redis')));
    before = new Map(items.map((node) => [node.node, node]));
  });
}
