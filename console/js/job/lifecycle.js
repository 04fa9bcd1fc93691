// The job's position in its lifecycle.

import { h } from '../dom.js';

const STATES = ['RECEIVED', 'ACKED', 'UNDERSTOOD', 'PROPOSED', 'APPROVED', 'EXECUTED', 'AUDITED'];

export function lifecycle() {
  const element = h('ol', { class: 'lifecycle', 'aria-label': 'Lifecycle' });

  function render({ state, pages, plan }) {
    const isAborted = ['FAILED', 'CANCELLED', 'REJECTED'].includes(state);
    const reached = isAborted
      ? 1 + Boolean(pages) + Boolean(plan)
      : STATES.indexOf(state === 'MODIFIED' ? 'PROPOSED' : state);
    const names = isAborted ? [...STATES.slice(0, reached + 1), state] : STATES;
    element.replaceChildren(
      ...names.map((name, at) => {
        const isEnd = isAborted && name === state;
        const className = isEnd ? 'bad' : at <= reached ? 'done' : '';
        const isNow = isEnd || (!isAborted && at === reached);
        return h('li', { class: className, 'aria-current': isNow && 'step' }, name.toLowerCase());
      }),
    );
  }

  return { element, render };
}
