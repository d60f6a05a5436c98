/* Where nothing is. */

import { h } from '../shared/dom.js';
import { text } from '../shared/text.js';
import { titled } from './frame.js';

export function missingView(place) {
  titled(text('missing'));
  place.append(h('div', { class: 'card narrow stack' },
    h('h1', {}, text('missing')), h('p', { class: 'soft' }, text('missing.more')), h('p', {}, h('a', { href: '/' }, text('to.sales')))));
}
