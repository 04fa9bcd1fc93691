// A table of something that the account lists, newest first, which grows by a button.

import { get, query } from '../api.js';
import { h, keyed } from '../dom.js';
import { trouble } from '../notices.js';
import { button, empty } from '../parts.js';

/** One request may ask for so many. */
const AT_ONCE = 500;

/**
 * `columns` as [name, class]; `key`, `row` and `update` as `keyed` has them; the button brings one `piece` more;
 * `none` says that there is nothing.
 */
export function list({ path, title, columns, key, row, update, piece, none }, signal) {
  let wanted = piece;
  let items = [];
  const body = h('tbody', {});
  const table = h(
    'table',
    { class: 'rows' },
    h('caption', { class: 'unseen' }, `${title}, newest first`),
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        columns.map(([name, look]) => h('th', { scope: 'col', class: look }, name)),
      ),
    ),
    body,
  );
  const nothing = empty(none);
  const more = button(
    'Show more',
    null,
    () => {
      wanted += piece;
      refresh().catch(trouble);
    },
    { hidden: true },
  );
  const element = h(
    'section',
    { class: 'listed', 'aria-label': title },
    h('div', { class: 'card flush' }, h('h2', {}, title), table, nothing),
    more,
  );

  async function refresh() {
    const asked = wanted;
    const found = [];
    let cursor;
    do {
      const limit = Math.min(AT_ONCE, asked - found.length);
      const answer = await get(`${path}${query({ limit, cursor })}`, signal);
      found.push(...answer.items);
      cursor = answer.next;
    } while (cursor && found.length < asked);
    // An answer to what was asked before must not replace one to what is asked now.
    if (asked !== wanted) return;
    items = found;
    keyed(body, items, key, row, update);
    more.hidden = !cursor;
    table.hidden = items.length === 0;
    nothing.hidden = items.length > 0;
  }

  return { element, refresh, items: () => items };
}
