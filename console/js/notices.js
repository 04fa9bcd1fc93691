// Short messages at the edge of the window, announced to screen readers.

import { h } from './dom.js';
import { icon } from './icons.js';

const VISIBLE_MS = 6000;

/** `actions` are [label, function] or [label, address]. Returns a function that removes the notice. */
export function notice(text, { tone = 'quiet', actions = [], stays = tone === 'bad' } = {}) {
  const box = document.getElementById('notices');
  const remove = () => element.remove();
  const element = h(
    'div',
    { class: `notice ${tone}` },
    h('span', { class: 'notice-text' }, text),
    actions.map(([label, run]) =>
      typeof run === 'string'
        ? h('a', { class: 'link', href: run, onclick: remove }, label)
        : h(
            'button',
            {
              type: 'button',
              class: 'link',
              onclick: () => {
                remove();
                run();
              },
            },
            label,
          ),
    ),
    h('button', { type: 'button', class: 'icon-button', 'aria-label': 'Dismiss', onclick: remove }, icon('close')),
  );
  box.append(element);
  if (!stays && !actions.length) setTimeout(remove, VISIBLE_MS);
  return remove;
}

export const showError = (error) => {
  if (error?.name !== 'AbortError') notice(error.message ?? String(error), { tone: 'bad' });
};
