// The actions that the job's state allows.

import { get, getAll, post, request } from '../api.js';
import { button, field } from '../components.js';
import { confirm, openDialog } from '../dialogs.js';
import { h } from '../dom.js';
import { money, plural } from '../format.js';
import { isOpen } from '../labels.js';
import { notice, showError } from '../notices.js';
import { isOperator } from '../session.js';

/** The number of pages that were planned for AI and have no AI text. */
const fallbackCount = (job) => {
  const metadata = job.result?.metadata;
  return metadata ? Math.max(0, metadata.ai_pages - metadata.final_ai_pages) : 0;
};

export function actions(model, path, { onChanged, beforeHealing, onHealing }) {
  const element = h('div', { class: 'actions' });
  let shown;

  async function cancel() {
    const job = await confirm(
      'Cancel this job?',
      'Running model calls stop. The pages that were read so far are published.',
      'Cancel job',
      'danger',
      () => post(`${path}/cancel`),
    );
    if (job) onChanged(job);
  }

  async function heal() {
    const { job } = model;
    const pages = fallbackCount(job);
    const cost = job.plan?.ai_pages ? (job.plan.estimated_cost_micro_usd / job.plan.ai_pages) * pages : 0;
    await beforeHealing();
    const healing = await confirm(
      'Retry the pages without AI text?',
      [
        `${plural(pages, 'page')}, about ${money(cost)}.`,
        'AI text replaces the fallback in a new version of the result. Earlier versions stay available.',
      ],
      'Retry',
      'primary',
      () => post(`${path}/heal`),
    );
    if (!healing) return;
    const sent = healing.sent.length;
    notice(sent ? `${plural(sent, 'page')} sent to the models` : 'No pages to retry');
    if (sent) onHealing(healing.sent);
  }

  /** Redrives the job's dead letter. */
  async function retry() {
    const { job } = model;
    const deadLetters = await getAll('/v1/dlq');
    const deadLetter = deadLetters.find(({ subject }) => subject.kind === 'job' && subject.job === job.id);
    if (!deadLetter) throw new Error('the job has no dead letter; upload the document again');
    const password = h('input', { type: 'password', autocomplete: 'off' });
    const needsPassword = job.error?.code.includes('password');
    const redriven = await openDialog({
      title: 'Retry this job?',
      body: [
        h('p', {}, `It failed: ${job.error?.reason ?? job.message}.`),
        needsPassword && field('Password of the PDF', password),
      ].filter(Boolean),
      action: 'Retry',
      run: async () => {
        const ids = [deadLetter.id];
        const outcome = await post('/v1/dlq/redrive', { ids, password: password.value || undefined });
        if (outcome.failed.length) throw new Error(outcome.failed[0].reason);
        return outcome;
      },
    });
    if (redriven) onChanged(await get(path));
  }

  async function remove() {
    const isDeleted = await confirm(
      'Delete this job?',
      'Its document, images, text, results and audit trail are deleted permanently.',
      'Delete',
      'danger',
      () => request(path, { method: 'DELETE' }),
    );
    if (isDeleted) location.hash = '#/jobs';
  }

  function render() {
    const { job } = model;
    const list = [];
    const add = (name, iconName, run, more) => list.push({ name, iconName, run, more });
    const pages = fallbackCount(job);
    if (model.healing) list.push({ text: 'Retrying pages…' });
    else if (job.status === 'success' && pages > 0) add(`Retry ${plural(pages, 'page')}`, 'retry', heal);
    if (job.status === 'failed' && isOperator()) add('Retry job', 'retry', retry, { class: 'button primary' });
    if (job.links.cancel) add('Cancel job', 'stop', cancel);
    if (!isOpen(job)) add('Delete', 'trash', remove);
    // Buttons are replaced only when they change, so that the focus stays.
    const names = list.map(({ name, text }) => name ?? text).join('|');
    if (names === shown) return;
    shown = names;
    element.replaceChildren(
      ...list.map(({ name, iconName, run, more, text }) =>
        text
          ? h('span', { class: 'busy-text', role: 'status' }, text)
          : button(name, iconName, () => run().catch(showError), more),
      ),
    );
  }

  return { element, render };
}
