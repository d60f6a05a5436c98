/* The server's clock, which decides when a sale opens; that of this machine may be anything.
 *
 * Answers tell the server's time. The one that came quickest says it best: it was true at some moment between asking and hearing. */

const SAMPLE_AGE_MS = 120000;
const SLEPT_MS_MIN = 1000;

let best = null; // { offset, spread, at, wall }

/* now: of an answer, RFC 3339. asked, heard: performance.now(). */
export function clockLearn(now, asked, heard) {
  const told = Date.parse(now);
  if (Number.isNaN(told)) return;
  const spread = heard - asked;
  const stale = best === null || heard - best.at > SAMPLE_AGE_MS;
  if (!stale && spread >= best.spread) return;
  best = { offset: told - (asked + heard) / 2, spread, at: heard, wall: Date.now() };
}

/* A machine that slept may have stopped its count: what its wall clock has gone further by is added, and the next answer counts, however long it
 * takes. */
export function clockDoubt() {
  if (best === null) return;
  const [at, wall] = [performance.now(), Date.now()];
  const slept = wall - best.wall - (at - best.at);
  best = { offset: best.offset + (slept > SLEPT_MS_MIN ? slept : 0), spread: Infinity, at, wall };
}

/* Whether an answer with the time is not needed. */
export function clockSure() {
  return best !== null && best.spread !== Infinity;
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
