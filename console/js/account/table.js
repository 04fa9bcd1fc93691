// A table of one of the account's lists, newest first, with a button that loads more.

import { get, query } from '../api.js';
import { button, empty } from '../components.js';
import { h, keyed } from '../dom.js';
import { showError } from '../notices.js';

/** The API's limit for one request. */
const MAX_LIMIT = 500;

/**
 * `columns` are [name, class]; `key`, `row` and `update` are those of `keyed`; the button loads
 * `batchSize` more rows; `emptyText` is shown for an empty list.
 */
export function table({ path, title, columns, key, row, update, batchSize, emptyText }, signal) {
  let wanted = batchSize;
  let items = [];
  const body = h('tbody', {});
  const rows = h(
    'table',
    { class: 'rows' },
    h('caption', { class: 'visually-hidden' }, `${title}, newest first`),
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        columns.map(([name, className]) => h('th', { scope: 'col', class: className }, name)),
      ),
    ),
    body,
  );
  const nothing = empty(emptyText);
  const more = button(
    'Show more',
    null,
    () => {
      wanted += batchSize;
      refresh().catch(showError);
    },
    { hidden: true },
  );
  const element = h(
    'section',
    { class: 'listing', 'aria-label': title },
    h('div', { class: 'card flush' }, h('h2', {}, title), rows, nothing),
    more,
  );

  async function refresh() {
    const requested = wanted;
    const found = [];
    let cursor;
    do {
      const limit = Math.min(MAX_LIMIT, requested - found.length);
      const batch = await get(`${path}${query({ limit, cursor })}`, signal);
      found.push(...batch.items);
      cursor = batch.next;
    } while (cursor && found.length < requested);
    // A late response must not replace that of a newer request.
    if (requested !== wanted) return;
    items = found;
    keyed(body, items, key, row, update);
    more.hidden = !cursor;
    rows.hidden = items.length === 0;
    nothing.hidden = items.length > 0;
  }

  return { element, refresh, items: () => items };
}
