/* A moment that is chosen: written and read in the time zone of whoever chooses, told to the server in its own. */

import { h } from '../shared/dom.js';

export function whenInput(properties = {}) {
  return h('input', { type: 'datetime-local', step: 1, ...properties });
}

export function whenZone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/* at: as the server tells it, or null. */
export function whenWrite(input, at) {
  const date = at === null ? null : new Date(Date.parse(at));
  input.value = date === null ? '' : new Date(date.getTime() - date.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}

/* As the server takes it; null where nothing is given, undefined where it is no time. */
export function whenRead(input) {
  if (input.value === '') return input.validity.badInput ? undefined : null;
  const time = new Date(input.value);
  return Number.isNaN(time.getTime()) ? undefined : time.toISOString(); // of a year with five digits it is no time
}
