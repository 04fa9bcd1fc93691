// Actions on dead letters: estimate the cost of a redrive, redrive, purge.

import { post } from '../api.js';
import { field } from '../components.js';
import { openDialog } from '../dialogs.js';
import { h, setText } from '../dom.js';
import { duration, money, plural } from '../format.js';

/** The API accepts this many ids in one request. */
const BATCH_SIZE = 1000;
const DEFAULT_RATE = 10;

/** Estimates what redriving these dead letters may cost. */
export async function estimate(ids) {
  const sum = { pages: 0, cost_micro_usd: 0, unknown: 0 };
  let remaining = ids;
  while (remaining.length) {
    const batch = remaining.slice(0, BATCH_SIZE);
    const part = await post('/v1/dlq/estimate', { ids: batch });
    for (const name of Object.keys(sum)) sum[name] += part[name];
    // A request that runs out of time leaves the last ids; the next request sends them again.
    const done = batch.length - part.remaining;
    if (done < 1) throw new Error('the server estimated no dead letter; try again later');
    remaining = remaining.slice(done);
  }
  return sum;
}

export const estimateText = ({ pages, cost_micro_usd: cost, unknown }) => {
  const more = unknown ? `; cost of ${plural(unknown, 'document')} not known yet` : '';
  return `${plural(pages, 'page')} for AI, about ${money(cost)}${more}`;
};

/** Redrives at a rate until every id is processed or `isStopped`; `onProgress` gets the number processed. */
async function redriveAll(ids, rate, password, isStopped, onProgress) {
  const outcome = { redriven: [], failed: [] };
  let remaining = ids;
  while (remaining.length && !isStopped()) {
    const part = await post('/v1/dlq/redrive', { ids: remaining.slice(0, BATCH_SIZE), rate, password });
    outcome.redriven.push(...part.redriven);
    outcome.failed.push(...part.failed);
    const done = new Set([...part.redriven, ...part.failed.map(({ id }) => id)]);
    if (!done.size) break;
    remaining = remaining.filter((id) => !done.has(id));
    onProgress(ids.length - remaining.length);
    // The server ends a request before a gateway times out; the rate holds between two requests as well.
    if (remaining.length) await new Promise((resolve) => setTimeout(resolve, 1000 / rate));
  }
  return outcome;
}

/** Asks for a rate, showing the cost, and redrives. Returns the outcome, or undefined when the dialog was cancelled. */
export function redrive(ids, cost, signal) {
  const rate = h('input', { type: 'number', min: 0.1, max: 1000, step: 'any', value: DEFAULT_RATE, required: true });
  const password = h('input', { type: 'password', autocomplete: 'off' });
  const meter = h('progress', { max: ids.length, value: 0, 'aria-label': 'Redriven', hidden: true });
  const takes = h('p', { class: 'hint' });
  const showDuration = () =>
    setText(takes, `Takes about ${duration(((ids.length - 1) / (Number(rate.value) || DEFAULT_RATE)) * 1000)}.`);
  rate.addEventListener('input', showDuration);
  showDuration();
  return openDialog({
    title: `Redrive ${plural(ids.length, 'dead letter')}?`,
    action: 'Redrive',
    body: [
      h('p', { class: 'big' }, cost ? estimateText(cost) : 'Cost not known.'),
      field('Dead letters per second', rate),
      takes,
      h('details', {}, h('summary', {}, 'Encrypted documents'), field('Password', password)),
      meter,
    ],
    run: (_, dialog) => {
      meter.hidden = false;
      const isStopped = () => signal.aborted || !dialog.open;
      const onProgress = (done) => (meter.value = done);
      return redriveAll(ids, Number(rate.value), password.value || undefined, isStopped, onProgress);
    },
  });
}

/** Asks for the number as confirmation, and purges. Returns how many were purged, or undefined when cancelled. */
export function purge(ids) {
  const typed = h('input', { inputmode: 'numeric', autocomplete: 'off', required: true });
  return openDialog({
    title: `Purge ${plural(ids.length, 'dead letter')}?`,
    action: 'Purge',
    tone: 'danger',
    body: [
      h('p', {}, "Purged dead letters are deleted and can't be redriven. The results of their jobs do not change."),
      field(`Type ${ids.length} to confirm`, typed),
    ],
    run: async () => {
      if (typed.value.trim() !== String(ids.length)) throw new Error(`type ${ids.length}, the number of dead letters`);
      let purged = 0;
      for (let from = 0; from < ids.length; from += BATCH_SIZE) {
        const batch = ids.slice(from, from + BATCH_SIZE);
        purged += (await post('/v1/dlq/purge', { ids: batch, confirm: batch.length })).purged;
      }
      return purged;
    },
  });
}
