/* Curves, drawn as SVG: no library, every colour from the style sheet, and beside each a table with the same numbers.
 *
 * A plot shows several series over one span of time. Points are { at (ms since 1970), values: { name: number or null } }. */

import { h, svg } from '../shared/dom.js';
import { count } from '../shared/format.js';
import { text } from '../shared/text.js';
import { clockTime } from './rates.js';

const WIDTH = 640;
const HEIGHT = 180;
const LEFT = 8;
const RIGHT = 8;
const TOP = 22;
const BOTTOM = 20;
const TABLE_ROWS = 30;

/* The next round number, so that the scale does not move with every point. */
function rounded(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 1.5, 2, 3, 4, 5, 6, 8, 10]) {
    if (value <= step * power) return step * power;
  }
  return 10 * power;
}

function pathOf(points, name, x, y) {
  let d = '';
  let drawn = false;
  for (const point of points) {
    const value = point.values[name];
    if (value === null || value === undefined) {
      drawn = false;
      continue;
    }
    d += `${drawn ? 'L' : 'M'}${x(point.at).toFixed(1)} ${y(value).toFixed(1)}`;
    drawn = true;
  }
  return d;
}

/* series: [{ name, label, kind }], kind a class of the style sheet; filled: its area, too. format: of a value. */
export function plot({ title, series, format = count, filled = null, id }) {
  const lines = series.map((one) => ({ ...one, path: svg('path', { class: `curve ${one.kind}` }) }));
  const area = svg('path', { class: `area ${filled ?? ''}` });
  const grid = [0, 0.5, 1].map((share) => {
    const at = TOP + (HEIGHT - TOP - BOTTOM) * (1 - share);
    return { share, line: svg('line', { class: 'grid', x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at }), label: svg('text', { class: 'tick', x: LEFT, y: at - 5 }) };
  });
  const [from, to] = [svg('text', { class: 'tick', x: LEFT, y: HEIGHT - 5 }), svg('text', { class: 'tick', x: WIDTH - RIGHT, y: HEIGHT - 5, 'text-anchor': 'end' })];
  const nothing = svg('text', { class: 'nothing', x: (LEFT + WIDTH - RIGHT) / 2, y: (TOP + HEIGHT - BOTTOM) / 2 + 22 });
  const figure = svg('svg', { class: 'plot', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': title },
    ...grid.flatMap(({ line, label }) => [line, label]), area, ...lines.map(({ path }) => path), from, to, nothing);
  const body = h('tbody');
  const details = h('details', {}, h('summary', {}, text('as_table')),
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': title },
      h('table', {}, h('caption', { class: 'hidden-text' }, title),
        h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, text('time')), series.map(({ label }) => h('th', { scope: 'col', class: 'end' }, label)))), body)));
  const legend = h('ul', { class: 'legend' }, series.map(({ label, kind }) => h('li', { class: kind }, label)));
  const place = h('section', { class: 'card plotted', id },
    h('div', { class: 'heading' }, h('h2', {}, title), legend), figure, details);

  let latest = [];
  const tableShow = () => {
    if (!details.open) return;
    const shown = latest.slice(-TABLE_ROWS).reverse();
    body.replaceChildren(...shown.map((point) => h('tr', {}, h('td', {}, clockTime(point.at)),
      series.map(({ name }) => h('td', { class: 'end number' }, point.values[name] === null || point.values[name] === undefined ? '–' : format(point.values[name]))))));
  };
  details.addEventListener('toggle', tableShow);

  /* From begin to now; end: where the scale ends, if not where the points do. */
  const draw = (points, begin, now, end = null) => {
    latest = points.filter((point) => point.at >= begin);
    let most = 0;
    for (const point of latest) for (const { name } of series) most = Math.max(most, point.values[name] ?? 0);
    const top = end || rounded(most); // all of it may have been withdrawn
    const x = (at) => LEFT + ((at - begin) / (now - begin)) * (WIDTH - LEFT - RIGHT);
    const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
    for (const { name, path } of lines) path.setAttribute('d', pathOf(latest, name, x, y));
    if (filled !== null) {
      const d = pathOf(latest, filled, x, y);
      const [first, last] = [latest.find((point) => point.values[filled] !== null), latest.at(-1)];
      area.setAttribute('d', d === '' ? '' : `${d}L${x(last.at).toFixed(1)} ${y(0)}L${x(first.at).toFixed(1)} ${y(0)}Z`);
    }
    for (const { share, label } of grid) label.textContent = share === 0 || (most === 0 && !end) ? '' : format(top * share);
    nothing.textContent = most === 0 && !end ? text('live.nothing') : '';
    from.textContent = clockTime(begin);
    to.textContent = clockTime(now);
    tableShow();
  };
  return { place, draw };
}
