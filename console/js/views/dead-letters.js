// Dead letters: select, estimate the cost, redrive or purge.

import { get, query } from '../api.js';
import { button, empty } from '../components.js';
import { estimate, estimateText, purge, redrive } from '../dead-letters/actions.js';
import { h, keyed, setText } from '../dom.js';
import { ago, count, exactTime, plural } from '../format.js';
import { icon } from '../icons.js';
import { every, throttled } from '../live.js';
import { notice, showError } from '../notices.js';
import { setViewShortcuts } from '../shortcuts.js';

const POLL_INTERVAL = 5000;
/** Dead letters fetched by one request, and rows that are added by the button. */
const BATCH_SIZE = 500;
const ROWS = 100;
const SUBJECT = { page: 'Page', job: 'Document', webhook: 'Webhook', message: 'Unreadable message' };

export async function show(root, _, signal) {
  document.title = 'Dead letters · Everypage';
  const selected = new Set();
  let deadLetters = [];
  /** Cursor of the next batch, if there is one, and the cursor of the last batch that was fetched. */
  let next;
  let last;
  let maxRows = ROWS;

  const body = h('tbody', {});
  const allBox = h('input', {
    type: 'checkbox',
    'aria-label': 'Select all matching dead letters',
    onchange: () => selectAll(allBox.checked).catch(showError),
  });
  const filter = h('input', {
    type: 'search',
    placeholder: 'Filter by reason, document or job',
    'aria-label': 'Filter by reason, document or job',
    oninput: () => {
      maxRows = ROWS;
      render();
      // Dead letters that are not fetched yet may match as well.
      if (next) enqueue(fetchAll).catch(showError);
    },
  });
  const table = h(
    'table',
    { class: 'rows select' },
    h('caption', { class: 'visually-hidden' }, 'Dead letters, oldest first'),
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        h('th', { scope: 'col' }, allBox),
        ['Subject', 'Reason', 'Receive count', 'Priority', 'Last failure'].map((name, at) =>
          h('th', { scope: 'col', class: at > 1 ? 'number' : '' }, name),
        ),
      ),
    ),
    body,
  );
  const nothing = h('div', { hidden: true });
  const more = button('Show more', null, () => showMore().catch(showError), { hidden: true });
  const summary = h('p', { class: 'hint', role: 'status' });
  const cost = h('strong', { id: 'estimate' });
  const redriveButton = button('Redrive', 'retry', () => redriveSelected().catch(showError), {
    class: 'button primary',
    id: 'redrive',
  });
  const purgeButton = button('Purge', 'trash', () => purgeSelected().catch(showError), {
    class: 'button danger',
    id: 'purge',
  });
  const bar = h(
    'div',
    { class: 'selection card' },
    summary,
    cost,
    h('div', { class: 'actions' }, redriveButton, purgeButton),
  );

  root.append(
    h('div', { class: 'head' }, h('h1', {}, 'Dead letters')),
    h(
      'p',
      { class: 'message' },
      'Pages, documents and webhooks that failed and are not retried automatically. A redriven page is published in a new version of its result.',
    ),
    h('div', { class: 'bar' }, h('div', { class: 'search' }, icon('search'), filter)),
    bar,
    h('div', { class: 'card flush' }, table, nothing),
    more,
  );

  const matching = () => {
    const text = filter.value.trim().toLowerCase();
    const textOf = ({ reason, document, subject }) => `${reason} ${document ?? ''} ${subject.job ?? ''}`.toLowerCase();
    return deadLetters.filter((deadLetter) => !text || textOf(deadLetter).includes(text));
  };

  function render() {
    const shown = matching();
    keyed(
      body,
      shown.slice(0, maxRows),
      (deadLetter) => deadLetter.id,
      row,
      (element, deadLetter) => {
        element.querySelector('input').checked = selected.has(deadLetter.id);
        element.classList.toggle('selected', selected.has(deadLetter.id));
        setText(element.querySelector('.last time'), ago(deadLetter.last_at));
      },
    );
    more.hidden = shown.length <= maxRows && !next;
    table.hidden = shown.length === 0;
    nothing.hidden = shown.length > 0;
    if (!shown.length)
      nothing.replaceChildren(
        deadLetters.length
          ? empty('No matching dead letters.')
          : empty('No dead letters.', 'Nothing failed permanently.'),
      );
    allBox.checked = shown.length > 0 && shown.every(({ id }) => selected.has(id));
    allBox.indeterminate = !allBox.checked && selected.size > 0;
    bar.hidden = deadLetters.length === 0;
    const total = `${count(deadLetters.length)}${next ? ' or more' : ''}`;
    const noun = deadLetters.length === 1 && !next ? 'dead letter' : 'dead letters';
    setText(
      summary,
      selected.size
        ? `${count(selected.size)} of ${total} ${noun} selected`
        : `${total} ${noun}; select some to redrive or purge them`,
    );
    redriveButton.disabled = purgeButton.disabled = selected.size === 0;
    estimateSoon();
  }

  function row(deadLetter) {
    const { subject } = deadLetter;
    const address = subject.page ? `#/jobs/${subject.job}/pages/${subject.page}` : `#/jobs/${subject.job}`;
    const name = subject.page ? `${SUBJECT.page} ${subject.page}` : (SUBJECT[subject.kind] ?? subject.kind);
    return h(
      'tr',
      {},
      h(
        'td',
        {},
        h('input', {
          type: 'checkbox',
          'aria-label': `Select ${name}${subject.job ? ` of ${deadLetter.document ?? subject.job}` : ''}`,
          onchange: (event) => {
            if (event.target.checked) selected.add(deadLetter.id);
            else selected.delete(deadLetter.id);
            render();
          },
        }),
      ),
      h(
        'th',
        { scope: 'row' },
        subject.job ? h('a', { href: address }, name) : name,
        deadLetter.document && h('span', { class: 'sub' }, deadLetter.document),
        subject.job && h('span', { class: 'sub mono' }, subject.job),
      ),
      h('td', {}, deadLetter.reason),
      h('td', { class: 'number' }, count(deadLetter.receive_count)),
      h('td', { class: 'number' }, deadLetter.priority),
      h(
        'td',
        { class: 'number last' },
        h('time', { datetime: deadLetter.last_at, title: exactTime(deadLetter.last_at) }),
      ),
    );
  }

  let estimatedIds = '';
  let estimated;
  const estimateSoon = throttled(
    200,
    async () => {
      const ids = [...selected];
      if (ids.join() === estimatedIds) return;
      estimatedIds = ids.join();
      estimated = undefined;
      cost.textContent = '';
      if (!ids.length) return;
      try {
        const result = await estimate(ids);
        if (estimatedIds !== ids.join()) return;
        estimated = result;
        cost.textContent = estimateText(result);
      } catch {
        // A redrive works without an estimate; its dialog shows that the cost is not known.
      }
    },
    signal,
  );

  async function redriveSelected() {
    const outcome = await redrive([...selected], estimated, signal);
    if (!outcome) return;
    outcome.redriven.forEach((id) => selected.delete(id));
    remove(new Set(outcome.redriven));
    const failed = outcome.failed.length ? `; ${outcome.failed.length} failed: ${outcome.failed[0].reason}` : '';
    notice(`${plural(outcome.redriven.length, 'dead letter')} redriven${failed}`, { tone: failed ? 'bad' : 'good' });
    await enqueue(reload);
  }

  async function purgeSelected() {
    const ids = [...selected];
    const purged = await purge(ids);
    if (purged !== undefined) {
      remove(new Set(ids));
      notice(`${plural(purged, 'dead letter')} purged`);
    }
    // A purge fails when another operator changed the number in the meantime: show the current list.
    await enqueue(reload);
  }

  async function selectAll(isChecked) {
    if (isChecked && next) await enqueue(fetchAll);
    for (const deadLetter of matching()) isChecked ? selected.add(deadLetter.id) : selected.delete(deadLetter.id);
    render();
  }

  async function showMore() {
    maxRows += ROWS;
    if (matching().length < maxRows && next) await enqueue(fetchNext);
    render();
  }

  // Runs one at a time: each depends on what the previous one has fetched.
  let previous = Promise.resolve();
  const enqueue = (work) => (previous = previous.catch(() => {}).then(() => signal.aborted || work()));

  const fetchBatch = (cursor) => get(`/v1/dlq${query({ limit: BATCH_SIZE, cursor })}`, signal);

  function replace(list, cursor) {
    deadLetters = list;
    next = cursor;
    const known = new Set(deadLetters.map(({ id }) => id));
    for (const id of selected) if (!known.has(id)) selected.delete(id);
    render();
  }

  const remove = (ids) =>
    replace(
      deadLetters.filter(({ id }) => !ids.has(id)),
      next,
    );

  /** Appends a batch; dead letters that are already listed keep their position. */
  function append(batch) {
    const known = new Set(deadLetters.map(({ id }) => id));
    replace([...deadLetters, ...batch.items.filter(({ id }) => !known.has(id))], batch.next);
  }

  async function fetchNext() {
    const cursor = next;
    if (!cursor) return;
    append(await fetchBatch(cursor));
    last = cursor;
  }

  async function fetchAll() {
    while (next && !signal.aborted) await fetchNext();
  }

  /** Fetches as many as are listed, from the start: those that others redrove or purged disappear. */
  async function reload() {
    const wanted = deadLetters.length;
    const found = [];
    let from;
    let batch;
    do {
      from = batch?.next;
      batch = await fetchBatch(from);
      found.push(...batch.items);
    } while (batch.next && found.length < wanted);
    last = from;
    replace(found, batch.next);
  }

  /** Fetches the first batch and the one after the last, where new dead letters appear; not those between. */
  async function refresh() {
    const first = await fetchBatch();
    if (!first.next) {
      last = undefined;
      return replace(first.items, undefined);
    }
    const fresh = new Set(first.items.map(({ id }) => id));
    const overlap = deadLetters.findLastIndex(({ id }) => fresh.has(id));
    const rest = overlap < 0 ? [] : deadLetters.slice(overlap + 1);
    if (!rest.length) {
      last = undefined;
      return replace(first.items, first.next);
    }
    replace([...first.items, ...rest], next);
    if (!next) append(await fetchBatch(last));
  }

  setViewShortcuts([
    ['a', 'Select all', () => allBox.click()],
    ['r', 'Redrive selected', () => redriveButton.click()],
    ['j', 'Next dead letter', () => moveFocus(1)],
    ['k', 'Previous dead letter', () => moveFocus(-1)],
  ]);
  const moveFocus = (by) => {
    const boxes = [...body.querySelectorAll('input')];
    boxes[Math.max(0, Math.min(boxes.length - 1, boxes.indexOf(document.activeElement) + by))]?.focus();
  };
  await refresh();
  every(POLL_INTERVAL, () => enqueue(refresh), signal);
}
