/* Numbers, money and times as people of the language write them. */

import { clockNow } from './clock.js';
import { language } from './text.js';

export function count(number) {
  return new Intl.NumberFormat(language()).format(number);
}

/* minor: an integer in minor units, or null where there is no price. */
export function money(minor, currency) {
  if (minor === null || minor === undefined) return null;
  try {
    const format = new Intl.NumberFormat(language(), { style: 'currency', currency });
    return format.format(minor / 10 ** format.resolvedOptions().maximumFractionDigits);
  } catch {
    // A sale without a currency, or with a word that is none.
    return `${new Intl.NumberFormat(language(), { minimumFractionDigits: 2 }).format(minor / 100)}${currency ? ` ${currency}` : ''}`;
  }
}

/* A moment, with its day where that is not today, and its year where that is another. */
export function moment(at, now = clockNow()) {
  const [date, today] = [new Date(at), new Date(now)];
  const year = today.getFullYear() === date.getFullYear() ? { weekday: 'short' } : { year: 'numeric' };
  const day = today.toDateString() === date.toDateString() ? {} : { month: 'short', day: 'numeric', ...year };
  return new Intl.DateTimeFormat(language(), { ...day, hour: '2-digit', minute: '2-digit' }).format(date);
}

function pad(number) {
  return String(number).padStart(2, '0');
}

/* 3:05, 1:02:03; days are told apart by whoever shows them. */
export function clockText(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  return hours > 0 ? `${hours}:${pad(minutes)}:${pad(seconds % 60)}` : `${minutes}:${pad(seconds % 60)}`;
}
