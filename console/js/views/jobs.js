// The list of jobs, newest first, with filters and the drop area for documents.

import { get, query } from '../api.js';
import { badge, button, empty, setBadge } from '../components.js';
import { h, keyed, setText } from '../dom.js';
import { ago, between, count, duration, exactTime, money, plural } from '../format.js';
import { icon } from '../icons.js';
import { isOpen, STATUS, statusOf } from '../labels.js';
import { every, follow, throttled } from '../live.js';
import { showError } from '../notices.js';
import { setViewShortcuts } from '../shortcuts.js';
import { uploadForm } from '../upload-form.js';
import { chooseFiles } from '../uploads.js';

const BATCH_SIZE = 50;
/** Batches that are searched for matching jobs at a time; the button continues from there. */
const MAX_BATCHES = 40;
/** Open jobs whose progress is fetched one by one, because the list does not include it. */
const MAX_PROGRESS_REQUESTS = 8;

const FILTERS = [['', 'All'], ...Object.entries(STATUS).map(([status, { name }]) => [status, name])];

export async function show(root, _, signal, search) {
  document.title = 'Jobs · Everypage';
  const state = {
    status: search.get('status') ?? '',
    text: search.get('q') ?? '',
    items: [],
    next: undefined,
    // A new object for each filter, by which late responses for an earlier filter are recognised.
    list: {},
    isLoaded: false,
  };

  const find = h('input', {
    type: 'search',
    placeholder: 'Search by name or ID',
    'aria-label': 'Search jobs by name or ID',
    value: state.text,
  });
  const filter = h(
    'div',
    { class: 'segments', role: 'group', 'aria-label': 'Status' },
    FILTERS.map(([status, name]) =>
      h(
        'button',
        {
          type: 'button',
          'aria-pressed': String(status === state.status),
          onclick: (event) => {
            state.status = status;
            for (const other of filter.children)
              other.setAttribute('aria-pressed', String(other === event.currentTarget));
            reload();
          },
        },
        name,
      ),
    ),
  );
  const body = h('tbody', {});
  const table = h(
    'table',
    { class: 'rows' },
    h('caption', { class: 'visually-hidden' }, 'Jobs, newest first'),
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        ['Document', 'Status', 'Pages', 'Duration', 'Cost', 'Created'].map((name, at) =>
          h('th', { scope: 'col', class: at > 1 ? 'number' : '' }, name),
        ),
      ),
    ),
    body,
  );
  const nothing = h('div', { hidden: true });
  const more = button('Show more', null, () => enqueue(loadMore).catch(showError), { hidden: true });
  const summary = h('p', { class: 'visually-hidden', role: 'status' });

  root.append(
    h(
      'div',
      { class: 'head' },
      h('h1', {}, 'Jobs'),
      h(
        'div',
        { class: 'actions' },
        button('Upload', 'upload', chooseFiles, { class: 'button primary', id: 'upload' }),
      ),
    ),
    uploadForm(),
    h('div', { class: 'bar' }, h('div', { class: 'search' }, icon('search'), find), filter),
    h('div', { class: 'card flush' }, table, nothing),
    more,
    summary,
  );

  const reload = () => {
    history.replaceState(null, '', `#/jobs${query({ status: state.status, q: state.text })}`);
    Object.assign(state, { list: {}, isLoaded: false });
    enqueue(loadFirst).catch((error) => signal.aborted || fail(error));
  };
  find.addEventListener(
    'input',
    throttled(
      250,
      () => {
        state.text = find.value.trim();
        reload();
      },
      signal,
    ),
  );

  /** Fetches matching jobs after `cursor`. A batch may hold few or none, and others may follow it. */
  async function fetchBatches(cursor, maxBatches) {
    const { list } = state;
    const items = [];
    for (let number = 0; number < maxBatches && list === state.list; number += 1) {
      const parameters = { limit: BATCH_SIZE, status: state.status, search: state.text, cursor };
      const batch = await get(`/v1/jobs${query(parameters)}`, signal);
      items.push(...batch.items);
      cursor = batch.next;
      if (!cursor || items.length >= BATCH_SIZE) break;
    }
    return { items, next: cursor };
  }

  // Runs one at a time: each depends on what the previous one has shown.
  let previous = Promise.resolve();
  const enqueue = (work) => (previous = previous.catch(() => {}).then(() => signal.aborted || work()));
  let isQueued = false;
  /** Queues a refresh, unless one is queued already. */
  const enqueueRefresh = () => {
    if (isQueued) return previous;
    isQueued = true;
    return enqueue(() => {
      isQueued = false;
      return refresh();
    });
  };

  /** Fetches the list from its newest job on. */
  async function loadFirst() {
    const { list } = state;
    const { items, next } = await fetchBatches(undefined, MAX_BATCHES);
    await display(list, items, items, next);
  }

  async function loadMore() {
    const { list, next: from } = state;
    more.disabled = true;
    try {
      const { items, next } = await fetchBatches(from, MAX_BATCHES);
      const known = new Set(state.items.map(({ id }) => id));
      const added = items.filter(({ id }) => !known.has(id));
      if (list === state.list) await display(list, [...state.items, ...added], added, next);
    } finally {
      more.disabled = false;
    }
  }

  /** Fetches the first batch and puts it before the jobs that are listed already; of those, updates the open ones. */
  async function refresh() {
    if (!state.isLoaded) return loadFirst();
    const { list } = state;
    const { items, next } = await fetchBatches(undefined, 1);
    if (list !== state.list) return;
    const fresh = new Set(items.map(({ id }) => id));
    const overlap = state.items.findLastIndex(({ id }) => fresh.has(id));
    if (!next) return display(list, items, items, next);
    // No overlap: between the new jobs and those listed, some may be missing.
    if (overlap < 0 && items.length >= BATCH_SIZE) return display((state.list = {}), items, items, next);
    const rest = state.items.slice(overlap + 1);
    await display(list, [...items, ...rest], [...items, ...rest.filter(isOpen)], state.next);
  }

  /** Shows `items`, after fetching the progress of the first few open jobs of `outdated`. */
  async function display(list, items, outdated, next) {
    const open = outdated.filter(isOpen).slice(0, MAX_PROGRESS_REQUESTS);
    const deleted = new Set();
    const fetchJob = async (job) => {
      try {
        Object.assign(job, await get(`/v1/jobs/${job.id}`, signal));
      } catch (error) {
        if (error.status === 404) deleted.add(job.id);
      }
    };
    await Promise.all(open.map(fetchJob));
    if (list !== state.list || signal.aborted) return;
    const matches = (job) => !deleted.has(job.id) && (!state.status || job.status === state.status);
    Object.assign(state, { items: items.filter(matches), next, isLoaded: true });
    render();
  }

  function render() {
    const { items, next } = state;
    keyed(body, items, (job) => job.id, row, update);
    more.hidden = !next;
    table.hidden = items.length === 0;
    nothing.hidden = items.length > 0;
    if (!items.length) {
      nothing.replaceChildren(
        next
          ? empty('No matching jobs so far.', '“Show more” searches older jobs.')
          : state.status || state.text
            ? empty('No matching jobs.', 'Try another name or status.')
            : empty('No documents yet.', 'Drop a PDF or an image anywhere on this page, or press u to choose one.'),
      );
    }
    setText(summary, `${items.length}${next ? ' or more' : ''} jobs`);
  }

  const fail = (error) => {
    table.hidden = true;
    nothing.hidden = false;
    nothing.replaceChildren(empty('Jobs could not be loaded.', error.message));
  };

  setViewShortcuts([
    ['j', 'Next job', () => moveFocus(body, 1)],
    ['k', 'Previous job', () => moveFocus(body, -1)],
    ['o', 'Open the job', () => document.activeElement.closest?.('tr')?.querySelector('a')?.click()],
  ]);
  await enqueueRefresh().catch((error) => {
    if (!signal.aborted) fail(error);
  });
  if (search.has('search')) find.focus();
  const soon = throttled(700, () => enqueueRefresh().catch(() => {}), signal);
  addEventListener('everypage:uploaded', soon, { signal });
  follow('/v1/events', { on: soon, poll: enqueueRefresh, ms: 3000, signal });
  every(1000, () => state.items.forEach((job) => update(body.known.get(job.id), job)), signal);
}

/** Moves the focus to the link of the next or previous row. */
function moveFocus(body, by) {
  const links = [...body.querySelectorAll('tr a')];
  const at = links.indexOf(document.activeElement);
  links[Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
}

function row(job) {
  return h(
    'tr',
    {},
    h(
      'th',
      { scope: 'row' },
      h('a', { href: `#/jobs/${job.id}` }, job.document.name),
      h('span', { class: 'sub mono' }, job.id),
    ),
    h('td', {}, badge(statusOf(job)), h('span', { class: 'sub' })),
    h('td', { class: 'number' }),
    h('td', { class: 'number' }),
    h('td', { class: 'number' }),
    h('td', { class: 'number' }, h('time', { datetime: job.created_at, title: exactTime(job.created_at) })),
  );
}

function update(element, job) {
  const [, status, pages, took, cost, created] = element.children;
  const result = job.result?.metadata;
  setBadge(status.firstChild, statusOf(job));
  setText(
    status.lastChild,
    isOpen(job) && job.status === 'processing' && job.progress !== undefined
      ? `${job.progress} %`
      : remark(job, result),
  );
  setText(pages, job.pages ? count(job.pages.selected) : '');
  setText(took, job.started_at ? duration(between(job.started_at, job.finished_at)) : '');
  setText(cost, result ? money(result.cost_micro_usd) : '');
  setText(created.firstChild, ago(job.created_at));
}

/** What is worth knowing before opening the job. */
function remark(job, result) {
  if (!result) return job.error ? job.error.reason : '';
  const parts = [];
  const { mupdf_fallback_count: all, missing_pages: missing } = result;
  const { timeout_fallback_page_numbers: timedOut, missing_page_numbers: withoutText } = result;
  // Counts each page once: pages that timed out and pages without text are among the fallbacks.
  const timedOutWithText = timedOut.filter((page) => !withoutText.includes(page)).length;
  const others = all - timedOutWithText - missing;
  if (others > 0) parts.push(plural(others, 'fallback'));
  if (timedOutWithText) parts.push(`${timedOutWithText} timed out`);
  if (missing) parts.push(`${missing} without text`);
  if (job.result.version > 1) parts.push(`version ${job.result.version}`);
  return parts.join(' · ');
}
