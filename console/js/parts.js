// Small pieces that several views show.

import { h, setText } from './dom.js';
import { icon } from './icons.js';

/** A state with its sign and its name. */
export function badge(meaning) {
  return h(
    'span',
    { class: `badge ${meaning.tone}` },
    h('span', { class: 'sign', 'aria-hidden': 'true' }, meaning.sign),
    h('span', {}, meaning.name),
  );
}

/** Brings a badge up to date without replacing it. */
export function setBadge(element, meaning) {
  element.className = `badge ${meaning.tone}`;
  setText(element.firstChild, meaning.sign);
  setText(element.lastChild, meaning.name);
}

export const button = (name, symbol, onclick, properties = {}) =>
  h('button', { type: 'button', class: 'button', onclick, ...properties }, symbol && icon(symbol), h('span', {}, name));

/** A name and its value. */
export const fact = (name, ...value) => h('div', { class: 'fact' }, h('dt', {}, name), h('dd', {}, ...value));

export const facts = (...list) => h('dl', { class: 'facts' }, ...list);

export const empty = (title, ...more) =>
  h('div', { class: 'empty' }, h('p', { class: 'empty-title' }, title), ...more.map((line) => h('p', {}, line)));

export const loading = () => h('div', { class: 'empty', role: 'status' }, h('p', {}, 'Loading…'));

/** A field of a form with its label and, where useful, a hint. */
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
  // Over plain HTTP browsers have no clipboard but this one.
  const field = h('textarea', { class: 'unseen', readonly: true, 'aria-hidden': 'true' });
  field.value = text;
  field.style.whiteSpace = 'pre';
  const focused = document.activeElement;
  document.body.append(field);
  field.select();
  const copied = document.execCommand('copy');
  field.remove();
  focused?.focus();
  if (!copied) throw new Error('the browser does not let this page copy');
}
