/* A phone whose screen goes dark stops its pages, and a place in line that is not looked at is given up. */

const LOOK_MS = 1000;

/* Keeps the screen on for as long as wanted() says so and the page is seen, where the browser can and may. */
export function awake(signal, wanted) {
  let lock = null;
  let busy = false;
  const look = async () => {
    const wish = wanted() && !document.hidden && !signal.aborted;
    const has = lock !== null && !lock.released;
    if (busy || wish === has) return;
    busy = true;
    try {
      if (wish) lock = await navigator.wakeLock.request('screen');
      if (!wish || signal.aborted) await lock.release();
    } catch {
      // A phone that saves its battery refuses.
    }
    busy = false;
  };
  if (navigator.wakeLock === undefined) return;
  const timer = setInterval(look, LOOK_MS);
  document.addEventListener('visibilitychange', look, { signal });
  signal.addEventListener('abort', () => { clearInterval(timer); look(); }, { once: true });
}
