// How far a job is in its life.

import { h } from '../dom.js';

const STATES = ['RECEIVED', 'ACKED', 'UNDERSTOOD', 'PROPOSED', 'APPROVED', 'EXECUTED', 'AUDITED'];

export function steps() {
  const element = h('ol', { class: 'steps', 'aria-label': 'Life cycle' });

  function render({ state, pages, plan }) {
    const hasEndedBadly = ['FAILED', 'CANCELLED', 'REJECTED'].includes(state);
    const reached = hasEndedBadly
      ? 1 + Boolean(pages) + Boolean(plan)
      : STATES.indexOf(state === 'MODIFIED' ? 'PROPOSED' : state);
    const names = hasEndedBadly ? [...STATES.slice(0, reached + 1), state] : STATES;
    element.replaceChildren(
      ...names.map((name, at) => {
        const isEnd = hasEndedBadly && name === state;
        const look = isEnd ? 'bad' : at <= reached ? 'done' : '';
        const isNow = isEnd || (!hasEndedBadly && at === reached);
        return h('li', { class: look, 'aria-current': isNow && 'step' }, name.toLowerCase());
      }),
    );
  }

  return { element, render };
}
