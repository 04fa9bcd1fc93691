// Every change of the balance, and what for.

import { h } from '../dom.js';
import { count, exactTime, signed } from '../format.js';
import { list } from './list.js';

export const ledger = (signal) =>
  list(
    {
      path: '/v1/account/ledger',
      title: 'Ledger',
      columns: [['Time'], ['What for'], ['Credits', 'number'], ['Balance after', 'number']],
      key: (entry) => entry.sequence,
      row,
      piece: 50,
      none: 'The balance has never changed.',
    },
    signal,
  );

const row = (entry) =>
  h(
    'tr',
    {},
    h('th', { scope: 'row' }, h('time', { datetime: entry.at }, exactTime(entry.at))),
    h('td', {}, whatFor(entry.cause)),
    h('td', { class: 'number' }, signed(entry.amount)),
    h('td', { class: 'number' }, count(entry.balance)),
  );

function whatFor({ kind, job, purchase, note }) {
  switch (kind) {
    case 'job':
      return ['Pages read', h('a', { class: 'sub mono', href: `#/jobs/${job}` }, job)];
    case 'purchase':
      return ['Purchase', h('span', { class: 'sub mono' }, purchase)];
    default:
      return note ?? kind;
  }
}
