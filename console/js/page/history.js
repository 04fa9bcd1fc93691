// Every call for a page, and each time that it was settled.

import { h } from '../dom.js';
import { count, duration, money, timeOfDay } from '../format.js';
import { badge, empty } from '../parts.js';
import { ATTEMPT, PAGE } from '../words.js';

const COLUMNS = ['Started', 'Model', 'Result', 'Took', 'Tokens in, out', 'Cost'];

const heading = (name, index) => h('th', { scope: 'col', class: index > 2 ? 'number' : '' }, name);

const call = (attempt, day) =>
  h(
    'tr',
    {},
    h('td', { class: 'nowrap' }, timeOfDay(attempt.started_at, day)),
    h('td', {}, `${attempt.provider} ${attempt.model}`),
    h('td', {}, badge(ATTEMPT[attempt.result]), attempt.detail && h('span', { class: 'sub' }, attempt.detail)),
    h('td', { class: 'number' }, duration(attempt.latency_ms)),
    h('td', { class: 'number' }, `${count(attempt.input_tokens)}, ${count(attempt.output_tokens)}`),
    h('td', { class: 'number' }, money(attempt.cost_micro_usd)),
  );

const settled = ({ settled_at: at, source, why }, day) =>
  h(
    'tr',
    { class: 'settled' },
    h('td', { class: 'nowrap' }, timeOfDay(at, day)),
    h('td', { colspan: COLUMNS.length - 1 }, `Settled: ${PAGE[source].name}${why ? `, ${why}` : ''}`),
  );

/** `settlements`, oldest first; times of another day than `day` have their date. */
export function history(day) {
  const element = h('section', { class: 'card flush', 'aria-label': 'Attempts' });
  let shown;

  function render(settlements) {
    if (settlements.length === shown) return;
    shown = settlements.length;
    const table = h(
      'table',
      { class: 'rows' },
      h('caption', { class: 'unseen' }, 'Every call for this page, oldest first'),
      h('thead', {}, h('tr', {}, COLUMNS.map(heading))),
      settlements.map((time) => h(
          'tbody',
          {},
          time.attempts.map((attempt) => call(attempt, day)),
          settled(time, day),
        )),
    );
    element.replaceChildren(h('h2', {}, 'Attempts'), shown ? table : empty('No model was asked for this page.'));
  }

  return { element, render };
}
