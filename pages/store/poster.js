/* A picture for things that come without one: always the same for the same sale, never the same for two. */

import { svg } from '../shared/dom.js';

function numbersOf(text) {
  let state = 2166136261;
  for (const letter of text) state = Math.imul(state ^ letter.codePointAt(0), 16777619) >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
}

export function poster(sale) {
  const next = numbersOf(`${sale.id} ${sale.name}`);
  const hue = Math.floor(next() * 360);
  const colour = (turn, light) => `hsl(${(hue + turn) % 360} 62% ${light}%)`;
  const shapes = [];
  for (let i = 0; i < 5; i++) {
    shapes.push(svg('circle', {
      cx: Math.round(next() * 400), cy: Math.round(next() * 300), r: Math.round(40 + next() * 130),
      fill: colour([18, 40, 340, 200, 60][i], 40 + Math.round(next() * 30)), opacity: 0.55,
    }));
  }
  for (let i = 0; i < 3; i++) {
    shapes.push(svg('circle', {
      cx: Math.round(next() * 400), cy: Math.round(next() * 300), r: Math.round(50 + next() * 90), fill: 'none',
      stroke: colour(i * 30, 88), 'stroke-width': 2 + Math.round(next() * 10), opacity: 0.6,
    }));
  }
  return svg('svg', { viewBox: '0 0 400 300', preserveAspectRatio: 'xMidYMid slice', 'aria-hidden': 'true', focusable: 'false', class: 'poster' },
    svg('rect', { width: 400, height: 300, fill: colour(0, 52) }), ...shapes);
}
