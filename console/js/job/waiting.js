// Pages that wait for their next round of model calls: why, and until when.

import { h, setText } from '../dom.js';
import { plural, timeOfDay } from '../format.js';
import { WAIT } from '../labels.js';

/** Continues "Page 7 is waiting for a model, …". */
export const describeWait = ({ reason, provider, model, until, rounds }) =>
  `${WAIT[reason].name}, ${provider} ${model} until ${timeOfDay(until)}, ${plural(rounds, 'round')} so far`;

/** "12 pages are waiting for a model: 10 rate limited, 2 calls failed. The next continues at 12:03:04." */
export function summarize(pages) {
  const waits = pages.filter(({ waiting }) => waiting).map(({ waiting }) => waiting);
  if (!waits.length) return '';
  const counts = new Map();
  for (const { reason } of waits) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  const reasons = [...counts].sort(([, a], [, b]) => b - a).map(([reason, number]) => `${number} ${WAIT[reason].name}`);
  const next = new Date(Math.min(...waits.map(({ until }) => Date.parse(until))));
  const who = `${plural(waits.length, 'page')} ${waits.length === 1 ? 'is' : 'are'} waiting for a model`;
  return `${who}: ${reasons.join(', ')}. The next continues at ${timeOfDay(next)}, or earlier.`;
}

export function waitingLine() {
  const element = h('p', { class: 'waiting-line', hidden: true });

  function render(pages) {
    const text = summarize(pages);
    element.hidden = !text;
    setText(element, text);
  }

  return { element, render };
}
