// What can be done with a job as it stands.

import { all, get, post, request } from '../api.js';
import { h } from '../dom.js';
import { money, plural } from '../format.js';
import { confirm, openDialog } from '../dialogs.js';
import { notice, trouble } from '../notices.js';
import { button, field } from '../parts.js';
import { isOperator } from '../session.js';
import { isOpen } from '../words.js';

const unread = (job) => {
  const figures = job.result?.metadata;
  return figures ? Math.max(0, figures.ai_pages - figures.final_ai_pages) : 0;
};

export function actions(model, path, { changed, beforeHealing, healing }) {
  const element = h('div', { class: 'actions' });
  let shown;

  async function cancel() {
    const sure = await confirm(
      'Cancel this job?',
      'Calls to the models stop. What was read by then is published.',
      'Cancel the job',
      'danger',
      () => post(`${path}/cancel`),
    );
    if (sure) changed(sure);
  }

  async function heal() {
    const { job } = model;
    const cost = job.plan?.ai_pages ? (job.plan.estimated_cost_micro_usd / job.plan.ai_pages) * unread(job) : 0;
    await beforeHealing();
    const healed = await confirm(
      'Ask the models again?',
      [
        `${plural(unread(job), 'page')} without an AI's text, about ${money(cost)}.`,
        'What is read replaces the fallback in a new version. The old one stays readable.',
      ],
      'Ask again',
      'primary',
      () => post(`${path}/heal`),
    );
    if (!healed) return;
    notice(
      healed.sent.length ? `${plural(healed.sent.length, 'page')} went to the models` : 'There was nothing to ask for',
    );
    if (healed.sent.length) healing(healed.sent);
  }

  /** A failed job waits among the dead letters; from there it starts again. */
  async function restart() {
    const { job } = model;
    const letters = await all('/v1/dlq');
    const letter = letters.find(({ subject }) => subject.kind === 'job' && subject.job === job.id);
    if (!letter) throw new Error('its dead letter is gone; upload the document again');
    const password = h('input', { type: 'password', autocomplete: 'off' });
    const wantsPassword = job.error?.code.includes('password');
    const sent = await openDialog({
      title: 'Start this job again?',
      body: [
        h('p', {}, `It failed: ${job.error?.reason ?? job.message}.`),
        wantsPassword && field('Password of the PDF', password),
      ].filter(Boolean),
      action: 'Start again',
      run: async () => {
        const answer = await post('/v1/dlq/redrive', { ids: [letter.id], password: password.value || undefined });
        if (answer.failed.length) throw new Error(answer.failed[0].reason);
        return answer;
      },
    });
    if (sent) changed(await get(path));
  }

  async function remove() {
    const gone = await confirm(
      'Delete this job?',
      'Its document, images, texts, results and trail are gone for good.',
      'Delete',
      'danger',
      () => request(path, { method: 'DELETE' }),
    );
    if (gone) location.hash = '#/jobs';
  }

  function render() {
    const { job } = model;
    const list = [];
    const add = (name, symbol, run, more) => list.push({ name, symbol, run, more });
    if (model.healing) list.push({ text: 'Asking the models again…' });
    else if (job.status === 'success' && unread(job) > 0) add(`Ask again for ${unread(job)}`, 'redo', heal);
    if (job.status === 'failed' && isOperator()) add('Start again', 'redo', restart, { class: 'button primary' });
    if (job.links.cancel) add('Cancel', 'stop', cancel);
    if (!isOpen(job)) add('Delete', 'trash', remove);
    // Buttons are made anew only when they change, so that the focus stays where it is.
    const names = list.map(({ name, text }) => name ?? text).join('|');
    if (names === shown) return;
    shown = names;
    element.replaceChildren(
      ...list.map(({ name, symbol, run, more, text }) =>
        text
          ? h('span', { class: 'busy-text', role: 'status' }, text)
          : button(name, symbol, () => run().catch(trouble), more),
      ),
    );
  }

  return { element, render };
}
