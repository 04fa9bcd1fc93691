// Keys: one letter, or two one after the other. They can be switched off, for whoever speaks to the
// computer or hits keys by accident.

import { h } from './dom.js';
import { openDialog } from './dialogs.js';

const KEPT = 'everypage.shortcuts';
const TOGETHER = 1000;

let always = [];
let here = [];
let before;
let beforeAt = 0;

const enabled = () => localStorage.getItem(KEPT) !== 'off';

const named = (list) => list.map(([keys, says, run]) => ({ keys, says, run }));

/** Shortcuts of every view. `keys` such as 'g j', '?' or 'ArrowLeft'. */
export const everywhere = (list) => (always = named(list));

/** Shortcuts of the view that is shown; they go with it. */
export const inView = (list) => (here = named(list));

const typing = (target) =>
  target.closest?.('input, select, textarea, [contenteditable]') && !['checkbox', 'radio'].includes(target.type);

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (!enabled() || document.querySelector('dialog[open]')) return;
  if (typing(event.target)) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  const pair = Date.now() - beforeAt < TOGETHER ? `${before} ${event.key}` : undefined;
  before = event.key;
  beforeAt = Date.now();
  const known = [...here, ...always];
  const found = known.find(({ keys }) => keys === pair) ?? known.find(({ keys }) => keys === event.key);
  if (!found) return;
  event.preventDefault();
  before = undefined;
  found.run(event);
});

const shown = (keys) =>
  keys
    .split(' ')
    .map((key) => h('kbd', {}, { ArrowLeft: '←', ArrowRight: '→', Escape: 'Esc', Enter: '↵' }[key] ?? key));

export function showAll() {
  const list = (title, all) =>
    all.length > 0 && [
      h('h3', {}, title),
      h(
        'dl',
        { class: 'keys' },
        all.map(({ keys, says }) => [h('dt', {}, shown(keys)), h('dd', {}, says)]),
      ),
    ];
  const box = h('input', { type: 'checkbox', onchange: () => localStorage.setItem(KEPT, box.checked ? 'on' : 'off') });
  box.checked = enabled();
  return openDialog({
    title: 'Keyboard shortcuts',
    body: [
      list('On this page', here),
      list('Everywhere', always),
      h('label', { class: 'check' }, box, 'Shortcuts are on'),
    ].flat(),
  });
}
