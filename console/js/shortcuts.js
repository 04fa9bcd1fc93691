// Keyboard shortcuts: one key, or two in sequence. They can be switched off, for speech input and
// against accidental key presses.

import { openDialog } from './dialogs.js';
import { h } from './dom.js';

const STORAGE = 'everypage.shortcuts';
const SEQUENCE_MS = 1000;

let globalShortcuts = [];
let viewShortcuts = [];
let previousKey;
let previousAt = 0;

const enabled = () => localStorage.getItem(STORAGE) !== 'off';

const named = (list) => list.map(([keys, description, run]) => ({ keys, description, run }));

/** Sets the shortcuts of every view. `keys` is such as 'g j', '?' or 'ArrowLeft'. */
export const setGlobalShortcuts = (list) => (globalShortcuts = named(list));

/** Sets the shortcuts of the current view; the next view replaces them. */
export const setViewShortcuts = (list) => (viewShortcuts = named(list));

const isTyping = (target) =>
  target.closest?.('input, select, textarea, [contenteditable]') && !['checkbox', 'radio'].includes(target.type);

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (!enabled() || document.querySelector('dialog[open]')) return;
  if (isTyping(event.target)) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  const sequence = Date.now() - previousAt < SEQUENCE_MS ? `${previousKey} ${event.key}` : undefined;
  previousKey = event.key;
  previousAt = Date.now();
  const known = [...viewShortcuts, ...globalShortcuts];
  const found = known.find(({ keys }) => keys === sequence) ?? known.find(({ keys }) => keys === event.key);
  if (!found) return;
  event.preventDefault();
  previousKey = undefined;
  found.run(event);
});

const keycaps = (keys) =>
  keys
    .split(' ')
    .map((key) => h('kbd', {}, { ArrowLeft: '←', ArrowRight: '→', Escape: 'Esc', Enter: '↵' }[key] ?? key));

export function showShortcuts() {
  const list = (title, all) =>
    all.length > 0 && [
      h('h3', {}, title),
      h(
        'dl',
        { class: 'keys' },
        all.map(({ keys, description }) => [h('dt', {}, keycaps(keys)), h('dd', {}, description)]),
      ),
    ];
  const box = h('input', {
    type: 'checkbox',
    onchange: () => localStorage.setItem(STORAGE, box.checked ? 'on' : 'off'),
  });
  box.checked = enabled();
  return openDialog({
    title: 'Keyboard shortcuts',
    body: [
      list('On this page', viewShortcuts),
      list('Everywhere', globalShortcuts),
      h('label', { class: 'check' }, box, 'Enable shortcuts'),
    ].flat(),
  });
}
