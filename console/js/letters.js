// What can be done with dead letters: weigh them, send them back, let them go.

import { post } from './api.js';
import { openDialog } from './dialogs.js';
import { h, setText } from './dom.js';
import { duration, money, plural } from './format.js';
import { field } from './parts.js';

/** One request may name so many. */
const AT_ONCE = 1000;
const RATE = 10;

/** What sending these letters back may cost. */
export async function weigh(ids) {
  const sum = { pages: 0, cost_micro_usd: 0, unknown: 0 };
  let rest = ids;
  while (rest.length) {
    const some = rest.slice(0, AT_ONCE);
    const part = await post('/v1/dlq/estimate', { ids: some });
    for (const name of Object.keys(sum)) sum[name] += part[name];
    // The last ones are left where there was no time for all: the next request has them.
    const weighed = some.length - part.left;
    if (weighed < 1) throw new Error('the server weighs no letter');
    rest = rest.slice(weighed);
  }
  return sum;
}

export const inWords = ({ pages, cost_micro_usd: cost, unknown }) => {
  const more = unknown ? `, and ${plural(unknown, 'document')} not weighed yet` : '';
  return `${plural(pages, 'page')} to AI, about ${money(cost)}${more}`;
};

/** Sends letters at a rate until all were reached or `isOver` says so; `onSent` hears how many were. */
async function send(ids, rate, password, isOver, onSent) {
  const outcome = { redriven: [], failed: [] };
  let left = ids;
  while (left.length && !isOver()) {
    const answer = await post('/v1/dlq/redrive', { ids: left.slice(0, AT_ONCE), rate, password });
    outcome.redriven.push(...answer.redriven);
    outcome.failed.push(...answer.failed);
    const done = new Set([...answer.redriven, ...answer.failed.map(({ id }) => id)]);
    if (!done.size) break;
    left = left.filter((id) => !done.has(id));
    onSent(ids.length - left.length);
    // A request ends before a gateway loses patience; between two of them the rate holds too.
    if (left.length) await new Promise((resolve) => setTimeout(resolve, 1000 / rate));
  }
  return outcome;
}

/** Asks for a rate, with the cost in sight, and sends. Gives what became of the letters, if they were sent. */
export function redrive(ids, weight, signal) {
  const rate = h('input', { type: 'number', min: 0.1, max: 1000, step: 'any', value: RATE, required: true });
  const password = h('input', { type: 'password', autocomplete: 'off' });
  const meter = h('progress', { max: ids.length, value: 0, 'aria-label': 'Sent', hidden: true });
  const takes = h('p', { class: 'hint' });
  const say = () =>
    setText(takes, `Takes about ${duration(((ids.length - 1) / (Number(rate.value) || RATE)) * 1000)}.`);
  rate.addEventListener('input', say);
  say();
  return openDialog({
    title: `Send ${plural(ids.length, 'letter')} back to work?`,
    action: 'Redrive',
    body: [
      h('p', { class: 'big' }, weight ? inWords(weight) : 'What it costs is not known.'),
      field('Letters a second', rate),
      takes,
      h('details', {}, h('summary', {}, 'Encrypted documents'), field('Password', password)),
      meter,
    ],
    run: (_, dialog) => {
      meter.hidden = false;
      const isOver = () => signal.aborted || !dialog.open;
      return send(ids, Number(rate.value), password.value || undefined, isOver, (sent) => (meter.value = sent));
    },
  });
}

/** Asks for their number, and lets them go. Gives how many are gone, if they are. */
export function purge(ids) {
  const typed = h('input', { inputmode: 'numeric', autocomplete: 'off', required: true });
  return openDialog({
    title: `Let ${plural(ids.length, 'letter')} go for good?`,
    action: 'Purge',
    tone: 'danger',
    body: [
      h('p', {}, 'They can never be sent back. The results of their jobs stay as they are.'),
      field(`Type ${ids.length} to confirm`, typed),
    ],
    run: async () => {
      if (typed.value.trim() !== String(ids.length)) throw new Error(`type ${ids.length}, the number of letters`);
      let gone = 0;
      for (let from = 0; from < ids.length; from += AT_ONCE) {
        const part = ids.slice(from, from + AT_ONCE);
        gone += (await post('/v1/dlq/purge', { ids: part, confirm: part.length })).purged;
      }
      return gone;
    },
  });
}
