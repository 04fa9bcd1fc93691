// The audit trail: every event of the job and its pages, in order.

import { h, keyed, setText } from '../dom.js';
import { exactTime, money, plural, timeOfDay } from '../format.js';
import { PAGE } from '../labels.js';
import { placeholder } from './placeholder.js';

const MAX_SHOWN = 2000;

/** Describes an event in one line. */
function describe({ type, data, aggregate }, day) {
  const page = aggregate.match(/\/page\/(\d+)$/)?.[1];
  switch (type) {
    case 'page.settled':
      return [
        `Page ${page} ${PAGE[data.source].phrase}`,
        data.target && `, ${data.target.provider} ${data.target.model}`,
        data.fallback_reason && `: ${data.fallback_reason}`,
      ]
        .filter(Boolean)
        .join('');
    case 'job.received':
      return `Received ${data.document.name} through ${data.source}`;
    case 'job.acked':
      return data.place ? 'Accepted' : `Accepted; deadline ${timeOfDay(data.deadline, day)}`;
    case 'job.admitted':
      return `Work started; deadline ${timeOfDay(data.deadline, day)}`;
    case 'job.understood':
      return `${plural(data.document_pages, 'page')}: ${data.text_only} text only, ${data.has_graphics} with graphics`;
    case 'job.proposed':
      return `${plural(data.ai_pages, 'page')} for AI, about ${money(data.estimated_cost_micro_usd)}${data.approval ? `; ${data.approval}` : ''}`;
    case 'job.modified':
      return `Plan modified by ${data.by}`;
    case 'job.approved':
      return `Approved by ${data.by}`;
    case 'job.rejected':
      return `Rejected by ${data.by}: ${data.reason}`;
    case 'job.deadline_moved':
      return `Deadline moved to ${timeOfDay(data.deadline, day)} by ${data.by}`;
    case 'job.deadline_reached':
      return 'Deadline reached';
    case 'job.cancel_requested':
      return `Cancellation requested by ${data.by}`;
    case 'job.executed':
      return `Version ${data.version} published`;
    case 'job.audited':
      return `Audit trail sealed; ${money(data.cost_micro_usd)}`;
    case 'job.healed':
      return `Healed: version ${data.result.version} published`;
    case 'job.redriven':
      return `Redriven by ${data.by}`;
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
  const explanation = h('span', {}, ', each with the hash of the previous one. ', command, ' verifies the chain.');
  const note = h('p', { class: 'hint' }, h('span', {}, number, explanation));
  const onlyJob = h('input', { type: 'checkbox', onchange: () => render() });
  const bar = h('div', { class: 'bar' }, h('label', { class: 'check' }, onlyJob, 'Hide page events'), note);
  const table = h(
    'div',
    { class: 'card flush' },
    h(
      'table',
      { class: 'rows' },
      h('caption', { class: 'visually-hidden' }, 'Audit trail, oldest first'),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          ['Time', 'Event', 'Description', 'Sequence', 'Hash'].map((name, at) =>
            h('th', { scope: 'col', class: at === 3 ? 'number' : '' }, name),
          ),
        ),
      ),
      body,
    ),
  );
  const none = placeholder(model, 'No events yet.');
  const element = h('div', { class: 'stacked' }, bar, table, none.element);

  function render() {
    const isEmpty = none.render(model.events.size === 0);
    for (const part of [bar, table]) part.hidden = isEmpty;
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
      events.slice(0, MAX_SHOWN),
      (event) => event.id,
      (event) =>
        h(
          'tr',
          {},
          h(
            'td',
            { class: 'nowrap' },
            h(
              'time',
              { datetime: event.timestamp, title: exactTime(event.timestamp) },
              timeOfDay(event.timestamp, model.job.created_at),
            ),
          ),
          h('td', {}, h('code', {}, event.type)),
          h('td', {}, describe(event, model.job.created_at)),
          h('td', { class: 'number' }, String(event.sequence)),
          h('td', {}, h('code', { title: event.hash }, event.hash.slice(0, 10))),
        ),
    );
    const cut = events.length > MAX_SHOWN ? `; the first ${MAX_SHOWN} are shown` : '';
    setText(number, `${plural(events.length, 'event')}${cut}`);
  }

  return { element, render };
}
