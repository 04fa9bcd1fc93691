// Small elements that several views use.

import { h, setText } from './dom.js';
import { icon } from './icons.js';

/** A state's symbol and name, as labels.js has them. */
export function badge(label) {
  return h(
    'span',
    { class: `badge ${label.tone}` },
    h('span', { class: 'symbol', 'aria-hidden': 'true' }, label.symbol),
    h('span', {}, label.name),
  );
}

/** Updates a badge without replacing it. */
export function setBadge(element, label) {
  element.className = `badge ${label.tone}`;
  setText(element.firstChild, label.symbol);
  setText(element.lastChild, label.name);
}

export const button = (name, iconName, onclick, properties = {}) =>
  h(
    'button',
    { type: 'button', class: 'button', onclick, ...properties },
    iconName && icon(iconName),
    h('span', {}, name),
  );

/** A name and its value. */
export const fact = (name, ...value) => h('div', { class: 'fact' }, h('dt', {}, name), h('dd', {}, ...value));

export const facts = (...list) => h('dl', { class: 'facts' }, ...list);

export const empty = (title, ...more) =>
  h('div', { class: 'empty' }, h('p', { class: 'empty-title' }, title), ...more.map((line) => h('p', {}, line)));

export const loading = () => h('div', { class: 'empty', role: 'status' }, h('p', {}, 'Loading…'));

/** A form field with its label and an optional hint. */
export function field(label, input, hint) {
  const id = `field-${Math.random().toString(36).slice(2)}`;
  input.id = id;
  if (hint) input.setAttribute('aria-describedby', `${id}-hint`);
  return h(
    'div',
    { class: 'field' },
    h('label', { for: id }, label),
    input,
    hint && h('p', { class: 'hint', id: `${id}-hint` }, hint),
  );
}

export const choice = (name, options, value) => {
  const select = h(
    'select',
    { name },
    options.map(([option, label]) => h('option', { value: option }, label)),
  );
  select.value = value ?? '';
  return select;
};

export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Over plain HTTP, browsers offer only the old way: selecting text and copying the selection.
  const area = h('textarea', { class: 'visually-hidden', readonly: true, 'aria-hidden': 'true' });
  area.value = text;
  area.style.whiteSpace = 'pre';
  const focused = document.activeElement;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand('copy');
  area.remove();
  focused?.focus();
  if (!isCopied) throw new Error('the browser does not allow this page to copy');
}
