// Notices: what a person has to know or decide, newest first.

import { get, query } from '../api.js';
import { button, empty } from '../components.js';
import { h, keyed, setText } from '../dom.js';
import { ago, exactTime } from '../format.js';
import { every } from '../live.js';
import { showError } from '../notices.js';

const POLL_INTERVAL = 5000;
const BATCH_SIZE = 50;
const KIND = {
  dead_letter: 'Dead letter',
  approval: 'Approval',
  bad_key: 'Provider',
  purchase: 'Purchase',
  erasure: 'Erasure',
  budget: 'Budget',
  account_drift: 'Account',
};
/** Where a person acts on it, by kind. */
const ADDRESS = { dead_letter: '#/dead-letters', bad_key: '#/models', purchase: '#/account', account_drift: '#/account' };

/** A line of the body: an address of this console is a link. */
const line = (text) => {
  const found = text.match(/^(.*?)(#\/jobs\/[\w-]+)$/);
  return h('li', {}, found ? [found[1], h('a', { href: found[2] }, found[2])] : text);
};

const sentText = ({ state, sent_by: channels, last_error: error }) =>
  state === 'sent' ? `Sent by ${channels.join(', ')}` : `${state === 'waiting' ? 'Not sent yet' : 'Not sent'}${error ? `: ${error}` : ''}`;

export async function show(root, _, signal) {
  document.title = 'Notices · Everypage';
  let older = [];
  let next;
  const list = h('ul', { class: 'notices-list' });
  const none = empty('No notices.', 'Dead letters, plans that need approval and bad keys appear here.');
  const more = button('Show more', null, () => fetchOlder().catch(showError), { hidden: true });
  root.append(
    h('div', { class: 'head' }, h('h1', {}, 'Notices')),
    h('p', { class: 'message' }, 'What needs a person, and whether the responsible person was notified.'),
    list,
    none,
    more,
  );

  const card = (notice) =>
    h(
      'li',
      { class: 'card' },
      h(
        'h2',
        {},
        ADDRESS[notice.kind] ? h('a', { href: ADDRESS[notice.kind] }, notice.subject) : notice.subject,
      ),
      h('ul', { class: 'lines' }, notice.body.split('\n').map(line)),
      h(
        'p',
        { class: 'hint' },
        `${KIND[notice.kind] ?? notice.kind} · `,
        h('time', { datetime: notice.at, title: exactTime(notice.at) }),
        ' · ',
        h('span', { class: 'sent' }),
      ),
    );
  const update = (element, notice) => {
    setText(element.querySelector('time'), ago(notice.at));
    setText(element.querySelector('.sent'), sentText(notice));
  };

  let first = [];
  function render() {
    const fresh = new Set(first.map(({ id }) => id));
    const all = [...first, ...older.filter(({ id }) => !fresh.has(id))];
    keyed(list, all, ({ id }) => id, card, update);
    none.hidden = all.length > 0;
    more.hidden = !next;
  }

  async function fetchOlder() {
    const batch = await get(`/v1/notices${query({ limit: BATCH_SIZE, cursor: next })}`, signal);
    older = [...older, ...batch.items];
    next = batch.next;
    render();
  }

  async function refresh() {
    const batch = await get(`/v1/notices${query({ limit: BATCH_SIZE })}`, signal);
    first = batch.items;
    if (!older.length) next = batch.next;
    render();
  }

  await refresh();
  every(POLL_INTERVAL, refresh, signal);
}
