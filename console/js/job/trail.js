// The audit trail: every event of the job and its pages, in the order in which they happened.

import { h, keyed, setText } from '../dom.js';
import { exactTime, money, plural, timeOfDay } from '../format.js';
import { PAGE } from '../words.js';
import { absence } from './absence.js';

const MOST_SHOWN = 2000;

/** What an event says, in words. */
function says({ type, data, aggregate }, day) {
  const page = aggregate.match(/\/page\/(\d+)$/)?.[1];
  switch (type) {
    case 'page.settled':
      return `Page ${page} ${PAGE[data.source].says}${data.target ? `, ${data.target.provider} ${data.target.model}` : ''}${data.why ? `: ${data.why}` : ''}`;
    case 'job.received':
      return `${data.document.name} came in through ${data.source}`;
    case 'job.acked':
      return `Durable; deadline ${timeOfDay(data.deadline, day)}`;
    case 'job.understood':
      return `${plural(data.document_pages, 'page')} opened: ${data.text_only} plain text, ${data.has_graphics} need eyes`;
    case 'job.proposed':
      return `${plural(data.ai_pages, 'page')} for AI, about ${money(data.estimated_cost_micro_usd)}${data.approval ? `; ${data.approval}` : ''}`;
    case 'job.modified':
      return `Plan changed by ${data.by}`;
    case 'job.approved':
      return `Approved by ${data.by}`;
    case 'job.rejected':
      return `Rejected by ${data.by}: ${data.reason}`;
    case 'job.deadline_reached':
      return 'The deadline came';
    case 'job.cancel_requested':
      return `Cancelled by ${data.by}`;
    case 'job.executed':
      return `Version ${data.version} published`;
    case 'job.audited':
      return `Trail sealed; ${money(data.cost_micro_usd)}`;
    case 'job.healed':
      return `Version ${data.result.version} published`;
    case 'job.redriven':
      return `Started again by ${data.by}`;
    case 'job.failed':
      return data.reason;
    case 'job.cancelled':
      return data.result ? `Version ${data.result.version} published` : 'Cancelled before the document was opened';
    default:
      return '';
  }
}

export function trail(model) {
  const body = h('tbody', {});
  const number = h('span', {});
  const command = h('code', {}, `everypage events verify ${model.job.id}`);
  const way = h('span', {}, ', each with the hash of the one before. ', command, ' checks the chain.');
  const note = h('p', { class: 'hint' }, h('span', {}, number, way));
  const onlyJob = h('input', { type: 'checkbox', onchange: () => render() });
  const bar = h('div', { class: 'bar' }, h('label', { class: 'check' }, onlyJob, 'Without pages'), note);
  const table = h(
    'div',
    { class: 'card flush' },
    h(
      'table',
      { class: 'rows' },
      h('caption', { class: 'unseen' }, 'Audit trail, oldest first'),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          ['Time', 'Event', 'What happened', 'Number', 'Hash'].map((name, at) =>
            h('th', { scope: 'col', class: at === 3 ? 'number' : '' }, name),
          ),
        ),
      ),
      body,
    ),
  );
  const none = absence(model, 'Nothing happened yet.');
  const element = h('div', { class: 'stacked' }, bar, table, none.element);

  function render() {
    const isAbsent = none.render(model.events.size === 0);
    for (const part of [bar, table]) part.hidden = isAbsent;
    const events = [...model.events.values()]
      .filter(({ type }) => !onlyJob.checked || type.startsWith('job.'))
      .sort((a, b) =>
        a.timestamp < b.timestamp
          ? -1
          : a.timestamp > b.timestamp
            ? 1
            : a.aggregate === b.aggregate
              ? a.sequence - b.sequence
              : 0,
      );
    keyed(
      body,
      events.slice(0, MOST_SHOWN),
      (event) => event.id,
      (event) =>
        h(
          'tr',
          {},
          h(
            'td',
            { class: 'nowrap' },
            h('time', { datetime: event.timestamp, title: exactTime(event.timestamp) }, timeOfDay(event.timestamp, model.job.created_at)),
          ),
          h('td', {}, h('code', {}, event.type)),
          h('td', {}, says(event, model.job.created_at)),
          h('td', { class: 'number' }, String(event.sequence)),
          h('td', {}, h('code', { title: event.hash }, event.hash.slice(0, 10))),
        ),
    );
    const cut = events.length > MOST_SHOWN ? `; the first ${MOST_SHOWN} are shown` : '';
    setText(number, `${plural(events.length, 'event')}${cut}`);
  }

  return { element, render };
}
