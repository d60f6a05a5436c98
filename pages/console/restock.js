/* More of a sale, or less. What is asked twice is done twice, so where no answer comes the numbers say what became of it. */

import { Unreachable, ask } from '../shared/api.js';
import { pause } from '../shared/clock.js';
import { h } from '../shared/dom.js';
import { count } from '../shared/format.js';
import { language, text } from '../shared/text.js';
import { announce, dialog, field } from './parts.js';

const AGAIN_MS = 1000;

/* The sale, or null where nobody answers. */
async function saleNow(id, signal) {
  try {
    const answer = await ask('GET', `/v1/sales/${id}`, { signal });
    return answer.ok ? answer.body : null;
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    return null;
  }
}

/* Asks how many; null where nobody wants it after all. */
async function unitsAsk(sale, warning) {
  const add = field(text('restock.add'), h('input', { inputmode: 'numeric', pattern: '\\s*-?[0-9]+\\s*', required: true, autocomplete: 'off', name: 'add' }), text('restock.why'));
  const now = h('p', {}, text('restock.now', { offered: count(sale.offered), available: count(sale.available) }));
  const fields = [...(warning === null ? [] : [h('p', { class: 'notice warn' }, warning)]), now, add.place];
  const yes = await dialog({ title: text('action.restock'), fields, accept: text('restock.accept') });
  const value = Number(add.input.value.trim());
  return yes && Number.isInteger(value) && value !== 0 ? value : null;
}

export class Restock {
  /* changed: called with the sale as it is then. */
  constructor(id, told, changed, signal) {
    Object.assign(this, { id, told, changed, signal });
    this.now = { offered: 0, available: 0 };
    this.lost = null; // what was not answered: { add, before, since }, since: when the server was asked what became of it
    this.shown = null;
  }

  words(offered) {
    const { add, before, since } = this.lost;
    const key = since === null ? 'unheard' : offered === before + add ? 'there' : offered === before ? 'not_there' : 'other';
    const signed = new Intl.NumberFormat(language(), { signDisplay: 'always' }).format(add);
    return text(`restock.${key}`, { add: signed, before: count(before), now: count(offered) });
  }

  show(offered) {
    const words = this.words(offered);
    if (words === this.shown) return;
    this.shown = words;
    this.told.warn(words);
    announce(words);
    if (this.lost.since !== null && offered === this.lost.before + this.lost.add) this.lost = null; // nothing is open any more
  }

  /* Numbers of this moment, from wherever; those of before the question say nothing of its outcome. */
  heard({ offered, available }, at) {
    this.now = { offered, available };
    if (this.lost !== null && this.lost.since !== null && at >= this.lost.since) this.show(offered);
  }

  async press() {
    const add = await unitsAsk(this.now, this.lost && this.words(this.now.offered));
    if (add !== null) await this.send(add);
  }

  async send(add) {
    const before = await saleNow(this.id, this.signal); // as late as can be
    if (before === null) {
      this.told.warn(text('restock.unsent'));
      return;
    }
    this.lost = null;
    this.shown = null;
    this.told.clear();
    try {
      const answer = await ask('POST', `/v1/sales/${this.id}/stock`, { body: { add } });
      if (answer.ok) this.changed(answer.body);
      else if (answer.status < 500 || answer.code === 'BUSY') this.told.bad(answer);
      else await this.search(add, before.offered);
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      await this.search(add, before.offered);
    }
  }

  async search(add, before) {
    this.lost = { add, before, since: null };
    this.show(before);
    while (!this.signal.aborted) {
      const sale = await saleNow(this.id, this.signal);
      if (sale !== null) {
        this.lost.since = Date.parse(sale.now);
        this.changed(sale);
        if (this.lost !== null) this.show(sale.offered);
        return;
      }
      await pause(AGAIN_MS, this.signal);
    }
  }
}
