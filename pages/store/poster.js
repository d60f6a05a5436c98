/* A picture for things that come without one: always the same for the same sale, never the same for two. */

import { svg } from '../shared/dom.js';

/* Numbers from 0 to 1 that follow from a text. */
function numbersOf(text) {
  let state = 2166136261;
  for (const letter of text) state = Math.imul(state ^ letter.codePointAt(0), 16777619);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

let made = 0; // a gradient has an id, and a page has many

export function poster(sale) {
  const next = numbersOf(`${sale.id} ${sale.name}`);
  const hue = Math.floor(next() * 360);
  const colour = (turn, full, light) => `hsl(${(hue + turn + 360) % 360} ${full}% ${light}%)`;
  const id = `poster-${made += 1}`;
  const warm = `hsl(${18 + Math.round(next() * 26)} 88% 72%)`;
  const x = 110 + Math.round(next() * 180);
  const y = 170 + Math.round(next() * 50);
  const size = 62 + Math.round(next() * 40);
  const hills = [0, 1, 2].map((i) => {
    const from = 190 + i * 34 + Math.round(next() * 26);
    const to = 190 + i * 34 + Math.round(next() * 26);
    const bend = Math.round(next() * 90) - 45;
    return svg('path', { d: `M0 ${from} C 130 ${from + bend} 270 ${to - bend} 400 ${to} V300 H0 Z`, fill: colour(-14 - i * 10, 34, 62 - i * 15), opacity: 0.9 });
  });
  return svg('svg', { viewBox: '0 0 400 300', preserveAspectRatio: 'xMidYMid slice', 'aria-hidden': 'true', focusable: 'false', class: 'poster' },
    svg('defs', {}, svg('linearGradient', { id, x1: 0, y1: 0, x2: 0, y2: 1 },
      svg('stop', { offset: 0, 'stop-color': colour(10, 46, 78) }), svg('stop', { offset: 1, 'stop-color': colour(42, 62, 86) }))),
    svg('rect', { width: 400, height: 300, fill: `url(#${id})` }),
    svg('circle', { cx: x, cy: y - 30, r: size, fill: warm }),
    svg('circle', { cx: x, cy: y - 30, r: size + 26, fill: 'none', stroke: warm, 'stroke-width': 2, opacity: 0.6 }),
    svg('circle', { cx: x, cy: y - 30, r: size + 58, fill: 'none', stroke: warm, 'stroke-width': 1.5, opacity: 0.5 }),
    ...hills);
}
