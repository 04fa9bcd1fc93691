// The model calls for a page, grouped by settlement.

import { badge, empty } from '../components.js';
import { h } from '../dom.js';
import { count, duration, money, timeOfDay } from '../format.js';
import { MODEL_CALL, PAGE } from '../labels.js';

const COLUMNS = ['Started', 'Model', 'Result', 'Duration', 'Tokens in, out', 'Cost'];

const heading = (name, index) => h('th', { scope: 'col', class: index > 2 ? 'number' : '' }, name);

const callRow = (call, day) =>
  h(
    'tr',
    {},
    h('td', { class: 'nowrap' }, timeOfDay(call.started_at, day)),
    h('td', {}, `${call.provider} ${call.model}`),
    h('td', {}, badge(MODEL_CALL[call.result]), call.detail && h('span', { class: 'sub' }, call.detail)),
    h('td', { class: 'number' }, duration(call.latency_ms)),
    h('td', { class: 'number' }, `${count(call.input_tokens)}, ${count(call.output_tokens)}`),
    h('td', { class: 'number' }, money(call.cost_micro_usd)),
  );

const settledRow = ({ settled_at: at, source, fallback_reason: reason }, day) =>
  h(
    'tr',
    { class: 'settled' },
    h('td', { class: 'nowrap' }, timeOfDay(at, day)),
    h(
      'td',
      { colspan: COLUMNS.length - 1 },
      `Settled: ${PAGE[source].name}${reason ? `. Fallback reason: ${reason}` : ''}`,
    ),
  );

/** Renders settlements, oldest first, and the calls since the last one. Times of another day than `day` include the date. */
export function calls(day) {
  const element = h('section', { class: 'card flush', 'aria-label': 'Model calls' });
  let shown;

  function render(settlements, open = []) {
    const now = `${settlements.length} ${open.length}`;
    if (now === shown) return;
    shown = now;
    const isEmpty = !settlements.length && !open.length;
    const table = h(
      'table',
      { class: 'rows' },
      h('caption', { class: 'visually-hidden' }, 'Model calls for this page, oldest first'),
      h('thead', {}, h('tr', {}, COLUMNS.map(heading))),
      settlements.map((settlement) =>
        h(
          'tbody',
          {},
          settlement.calls.map((call) => callRow(call, day)),
          settledRow(settlement, day),
        ),
      ),
      open.length > 0 &&
        h(
          'tbody',
          {},
          open.map((call) => callRow(call, day)),
        ),
    );
    element.replaceChildren(h('h2', {}, 'Model calls'), isEmpty ? empty('No model calls for this page.') : table);
  }

  return { element, render };
}
