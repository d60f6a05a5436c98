/* Begins, and begins again where the network lost a part on the way. It needs nothing itself, and speaks both languages because the one that
 * is wanted may be what is missing. */

const AGAIN_MS = 2000;

try {
  await import(document.querySelector('script[data-main]').dataset.main);
} catch (error) {
  const words = document.createElement('p');
  words.className = 'notice warn';
  words.setAttribute('role', 'status');
  words.textContent = 'Not everything has arrived; loading again … 页面未能完整加载，正在重试……';
  document.getElementById('main').replaceChildren(words);
  console.info(String(error));
  setTimeout(() => location.reload(), AGAIN_MS * (1 + Math.random())); // not all at the same moment again
}
