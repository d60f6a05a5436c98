/* Elements. Text goes into a page by text nodes and nothing else: whatever a name is made of, it is shown, never read. */

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'on') {
      for (const [type, listener] of Object.entries(value)) element.addEventListener(type, listener);
    } else if (name === 'vars') {
      // Not by a style attribute, which the policy of the page refuses.
      for (const [variable, number] of Object.entries(value)) element.style.setProperty(variable, String(number));
    } else {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/* h('p', { class: 'note', on: { click: … }, vars: { '--share': 0.5 } }, 'text', element, …) */
export function h(name, properties = {}, ...children) {
  return fill(document.createElement(name), properties, children);
}

export function svg(name, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, name), properties, children);
}

/* Text somebody else wrote, which may run from right to left: it keeps to itself. */
export function said(text, properties = {}) {
  return h('bdi', properties, text);
}

/* Changes text only where it differs, so that screen readers and selections are left alone. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function show(element, visible) {
  if (element.hidden === visible) element.hidden = !visible;
}
