// Creates elements from plain values. Text only ever becomes text nodes: document text and names are
// never parsed as HTML.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value' || name === 'checked' || name === 'disabled') element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(3).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

export const h = (name, properties, ...children) => fill(document.createElement(name), properties, children);

export const svg = (name, properties, ...children) => fill(document.createElementNS(SVG, name), properties, children);

/** Sets text only where it differs, so that selections are kept and screen readers do not repeat it. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Makes the children of `parent` match `items`, in order. Reuses elements by key, so that focus,
 * selection and scroll position survive a refresh; `update` runs on reused and new elements.
 */
export function keyed(parent, items, key, make, update) {
  const known = (parent.known ??= new Map());
  const wanted = new Set(items.map(key));
  for (const [name, element] of known) {
    if (!wanted.has(name)) {
      element.remove();
      known.delete(name);
    }
  }
  let next = parent.firstElementChild;
  for (const item of items) {
    let element = known.get(key(item));
    if (!element) {
      element = make(item);
      known.set(key(item), element);
    }
    update?.(element, item);
    if (element === next) next = next.nextElementSibling;
    else parent.insertBefore(element, next);
  }
}
