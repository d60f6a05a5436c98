/* The server's clock, which decides when a sale opens; that of this machine may be anything.
 *
 * Answers tell the server's time. The one that came quickest says it best: it was true at some moment between asking and hearing. */

const SAMPLE_AGE_MS = 120000;

let best = null; // { offset, spread, at, skew }: skew is what this machine's clock is off by

/* now: of an answer, RFC 3339. asked, heard: performance.now(). */
export function clockLearn(now, asked, heard) {
  const told = Date.parse(now);
  if (Number.isNaN(told)) return;
  const spread = heard - asked;
  const stale = best === null || heard - best.at > SAMPLE_AGE_MS;
  if (!stale && spread >= best.spread) return;
  const offset = told - (asked + heard) / 2;
  best = { offset, spread, at: heard, skew: performance.now() + offset - Date.now() };
}

/* A machine that slept may have stopped its count. Until an answer tells the time, its clock is believed as far as it was right before. */
export function clockForget() {
  if (best !== null) best = { ...best, offset: Date.now() + best.skew - performance.now(), spread: Infinity };
}

/* Whether the next answer should tell the time. */
export function clockIsOld() {
  return best === null || best.spread === Infinity || performance.now() - best.at > SAMPLE_AGE_MS;
}

/* Milliseconds since 1970, as the server counts them. */
export function clockNow() {
  return best === null ? Date.now() : performance.now() + best.offset;
}

/* Calls back every so often until the signal ends it; at once, too. */
export function every(ms, signal, work) {
  work();
  const timer = setInterval(work, ms);
  signal.addEventListener('abort', () => clearInterval(timer), { once: true });
}

/* A signal that ends with the first of these. */
export function either(...signals) {
  const ends = new AbortController();
  for (const signal of signals) {
    if (signal.aborted) ends.abort(signal.reason);
    signal.addEventListener('abort', () => ends.abort(signal.reason), { once: true, signal: ends.signal });
  }
  return ends.signal;
}

/* Ends early, without complaint, when the signal does. */
export function pause(ms, signal) {
  return new Promise((done) => {
    if (signal?.aborted) {
      done();
      return;
    }
    const timer = setTimeout(done, ms);
    signal?.addEventListener('abort', () => { clearTimeout(timer); done(); }, { once: true });
  });
}

/* The same, and it ends as well when the page is looked at again. */
export async function pauseUnseen(ms, signal) {
  const ends = new AbortController();
  document.addEventListener('visibilitychange', () => { if (!document.hidden) ends.abort(); }, { signal: ends.signal });
  await pause(ms, either(ends.signal, signal));
  ends.abort();
}
