/* What a page remembers. A browser may refuse to keep anything; then it lasts as long as the page. */

const fallback = new Map();

function attempt(work, otherwise) {
  try {
    return work();
  } catch {
    return otherwise();
  }
}

export function keptGet(name) {
  const text = attempt(() => localStorage.getItem(name), () => null) ?? fallback.get(name) ?? null;
  return text === null ? null : attempt(() => JSON.parse(text), () => null);
}

export function keptSet(name, value) {
  const text = JSON.stringify(value);
  attempt(() => localStorage.setItem(name, text), () => fallback.set(name, text));
}

export function keptDrop(name) {
  fallback.delete(name);
  attempt(() => localStorage.removeItem(name), () => null);
}
