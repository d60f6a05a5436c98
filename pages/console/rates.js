/* From what was seen to what will be: rates, estimates and how long things take, in words. */

import { language, text } from '../shared/text.js';

const RATE_MS = 10000;

/* Seconds until nothing is left at the rate of the last ten; null where nothing is being taken. points: { at, values: { available } }. */
export function soldOutIn(points) {
  const last = points.at(-1);
  if (last === undefined || last.values.available === 0) return null;
  const first = points.find((point) => point.at >= last.at - RATE_MS);
  const seconds = (last.at - first.at) / 1000;
  const taken = first.values.available - last.values.available;
  if (seconds < 1 || taken <= 0) return null;
  return last.values.available / (taken / seconds);
}

function rounded(value, digits = 2) {
  return new Intl.NumberFormat(language(), { maximumSignificantDigits: digits }).format(value);
}

/* A moment of today, to the second; of another day with that. */
export function clockTime(at) {
  const date = new Date(at);
  const day = date.toDateString() === new Date().toDateString() ? {} : { month: 'short', day: 'numeric' };
  return new Intl.DateTimeFormat(language(), { ...day, hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' }).format(date);
}

export function duration(seconds) {
  if (seconds < 60) return text('duration.s', { s: rounded(seconds, 3) });
  if (seconds < 3600) return text('duration.min', { min: Math.floor(seconds / 60), s: Math.floor(seconds % 60) });
  if (seconds < 86400) return text('duration.h', { h: Math.floor(seconds / 3600), min: Math.floor((seconds % 3600) / 60) });
  return text('duration.d', { d: rounded(seconds / 86400, 3) });
}

export function microseconds(us) {
  if (us < 1000) return `${rounded(us, 3)} µs`;
  if (us < 1e6) return `${rounded(us / 1000, 3)} ms`;
  return `${rounded(us / 1e6, 3)} s`;
}

export function bytes(number) {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let at = 0;
  let left = number;
  while (left >= 1000 && at < units.length - 1) {
    left /= 1024;
    at += 1;
  }
  return `${rounded(left, 3)} ${units[at]}`;
}
