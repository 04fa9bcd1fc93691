// The ledger: every change of the balance, with its cause.

import { h } from '../dom.js';
import { count, exactTime, signed } from '../format.js';
import { table } from './table.js';

export const ledger = (signal) =>
  table(
    {
      path: '/v1/account/ledger',
      title: 'Ledger',
      columns: [['Time'], ['Cause'], ['Credits', 'number'], ['Balance after', 'number']],
      key: (entry) => entry.sequence,
      row,
      batchSize: 50,
      emptyText: 'No entries yet.',
    },
    signal,
  );

const row = (entry) =>
  h(
    'tr',
    {},
    h('th', { scope: 'row' }, h('time', { datetime: entry.at }, exactTime(entry.at))),
    h('td', {}, cause(entry.cause)),
    h('td', { class: 'number' }, signed(entry.amount)),
    h('td', { class: 'number' }, count(entry.balance)),
  );

function cause({ kind, job, purchase, note }) {
  switch (kind) {
    case 'job':
      return ['Pages read', h('a', { class: 'sub mono', href: `#/jobs/${job}` }, job)];
    case 'purchase':
      return ['Purchase', h('span', { class: 'sub mono' }, purchase)];
    case 'welcome':
      return 'Welcome credits';
    default:
      return note ?? kind;
  }
}
