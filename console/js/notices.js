// Short messages that come and go, and are read aloud.

import { h } from './dom.js';
import { icon } from './icons.js';

const STAY = 6000;

/** `actions` as [name, what to do] or [name, the address to go to]. */
export function notice(text, { tone = 'quiet', actions = [], stays = tone === 'bad' } = {}) {
  const box = document.getElementById('notices');
  const remove = () => element.remove();
  const element = h(
    'div',
    { class: `notice ${tone}` },
    h('span', { class: 'notice-text' }, text),
    actions.map(([name, run]) =>
      typeof run === 'string'
        ? h('a', { class: 'link', href: run, onclick: remove }, name)
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
            name,
          ),
    ),
    h('button', { type: 'button', class: 'icon-button', 'aria-label': 'Dismiss', onclick: remove }, icon('close')),
  );
  box.append(element);
  if (!stays && !actions.length) setTimeout(remove, STAY);
  return remove;
}

export const trouble = (error) => {
  if (error?.name !== 'AbortError') notice(error.message ?? String(error), { tone: 'bad' });
};
