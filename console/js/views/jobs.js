// The list of jobs: newest first, by status and by name, with a place to drop documents.

import { get, query } from '../api.js';
import { h, keyed, setText } from '../dom.js';
import { ago, between, count, duration, exactTime, money } from '../format.js';
import { icon } from '../icons.js';
import { every, follow, gathered } from '../live.js';
import { trouble } from '../notices.js';
import { badge, button, empty, setBadge } from '../parts.js';
import { inView } from '../shortcuts.js';
import { uploadForm } from '../upload-form.js';
import { chooseFiles } from '../uploads.js';
import { isOpen, STATUS, statusOf } from '../words.js';

const PIECE = 50;
/** So many pieces are looked through for jobs that fit; the button goes on from there. */
const MOST_PIECES = 40;
/** A list does not say how far its jobs are; of so many it is asked. */
const MOST_ASKED = 8;

const FILTERS = [
  ['', 'All'],
  ...[
    'awaiting_upload',
    'queued',
    'processing',
    'awaiting_approval',
    'success',
    'failed',
    'cancelled',
    'rejected',
  ].map((status) => [status, STATUS[status].name]),
];

export async function show(root, _, signal, search) {
  document.title = 'Jobs · Everypage';
  const state = {
    status: search.get('status') ?? '',
    text: search.get('q') ?? '',
    items: [],
    next: undefined,
    // Another one for each list that is asked for: answers to what was asked before are known by it.
    list: {},
    isRead: false,
  };

  const find = h('input', {
    type: 'search',
    placeholder: 'Search by name or id',
    'aria-label': 'Search jobs by name or id',
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
            renew();
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
    h('caption', { class: 'unseen' }, 'Jobs, newest first'),
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        ['Document', 'Status', 'Pages', 'Took', 'Cost', 'Came in'].map((name, at) =>
          h('th', { scope: 'col', class: at > 1 ? 'number' : '' }, name),
        ),
      ),
    ),
    body,
  );
  const nothing = h('div', { hidden: true });
  const more = button(
    'Show more',
    null,
    () => inTurn(readOn).catch(trouble),
    { hidden: true },
  );
  const summary = h('p', { class: 'unseen', role: 'status' });

  root.append(
    h(
      'div',
      { class: 'head' },
      h('h1', {}, 'Jobs'),
      h(
        'div',
        { class: 'actions' },
        button('Upload PDF', 'upload', chooseFiles, { class: 'button primary', id: 'upload' }),
      ),
    ),
    uploadForm(),
    h('div', { class: 'bar' }, h('div', { class: 'search' }, icon('search'), find), filter),
    h('div', { class: 'card flush' }, table, nothing),
    more,
    summary,
  );

  const renew = () => {
    history.replaceState(null, '', `#/jobs${query({ status: state.status, q: state.text })}`);
    Object.assign(state, { list: {}, isRead: false });
    inTurn(begin).catch((error) => signal.aborted || fail(error));
  };
  find.addEventListener(
    'input',
    gathered(
      250,
      () => {
        state.text = find.value.trim();
        renew();
      },
      signal,
    ),
  );

  /** Jobs from `cursor` on. A piece may hold few that fit, or none, and have more after it. */
  async function read(cursor, pieces) {
    const { list } = state;
    const items = [];
    for (let asked = 0; asked < pieces && list === state.list; asked += 1) {
      const wanted = { limit: PIECE, status: state.status, search: state.text, cursor };
      const answer = await get(`/v1/jobs${query(wanted)}`, signal);
      items.push(...answer.items);
      cursor = answer.next;
      if (!cursor || items.length >= PIECE) break;
    }
    return { items, next: cursor };
  }

  // Each builds on what the one before has shown.
  let before = Promise.resolve();
  const inTurn = (work) => (before = before.catch(() => {}).then(() => signal.aborted || work()));
  let isDue = false;
  /** However much happens meanwhile, one refresh waits for its turn. */
  const refreshInTurn = () => {
    if (isDue) return before;
    isDue = true;
    return inTurn(() => {
      isDue = false;
      return refresh();
    });
  };

  /** The list from its newest job on. */
  async function begin() {
    const { list } = state;
    const { items, next } = await read(undefined, MOST_PIECES);
    await put(list, items, items, next);
  }

  async function readOn() {
    const { list, next: from } = state;
    more.disabled = true;
    try {
      const { items, next } = await read(from, MOST_PIECES);
      const known = new Set(state.items.map(({ id }) => id));
      const added = items.filter(({ id }) => !known.has(id));
      if (list === state.list) await put(list, [...state.items, ...added], added, next);
    } finally {
      more.disabled = false;
    }
  }

  /** The first piece, put in front of what was read before; the jobs after it are asked for while they are open. */
  async function refresh() {
    if (!state.isRead) return begin();
    const { list } = state;
    const { items, next } = await read(undefined, 1);
    if (list !== state.list) return;
    const fresh = new Set(items.map(({ id }) => id));
    const overlap = state.items.findLastIndex(({ id }) => fresh.has(id));
    if (!next) return put(list, items, items, next);
    // So much is new that jobs may be missing in between.
    if (overlap < 0 && items.length >= PIECE) return put((state.list = {}), items, items, next);
    const rest = state.items.slice(overlap + 1);
    await put(list, [...items, ...rest], [...items, ...rest.filter(isOpen)], state.next);
  }

  /** Shows these jobs. A list does not say how far its jobs are: the first few of `unsure` are asked for. */
  async function put(list, items, unsure, next) {
    const open = unsure.filter(isOpen).slice(0, MOST_ASKED);
    const gone = new Set();
    const ask = async (job) => {
      try {
        Object.assign(job, await get(`/v1/jobs/${job.id}`, signal));
      } catch (error) {
        if (error.status === 404) gone.add(job.id);
      }
    };
    await Promise.all(open.map(ask));
    if (list !== state.list || signal.aborted) return;
    const fits = (job) => !gone.has(job.id) && (!state.status || job.status === state.status);
    Object.assign(state, { items: items.filter(fits), next, isRead: true });
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
          ? empty('No job fits so far.', 'There are older ones: show more looks among them.')
          : state.status || state.text
            ? empty('No job fits.', 'Try another name or status.')
            : empty('No documents yet.', 'Drop a PDF anywhere on this page, or press u to choose one.'),
      );
    }
    setText(summary, `${items.length}${next ? ' or more' : ''} jobs`);
  }

  const fail = (error) => {
    table.hidden = true;
    nothing.hidden = false;
    nothing.replaceChildren(empty('The jobs could not be read.', error.message));
  };

  inView([
    ['j', 'Next job', () => step(body, 1)],
    ['k', 'Job before', () => step(body, -1)],
    ['o', 'Open the job', () => document.activeElement.closest?.('tr')?.querySelector('a')?.click()],
  ]);
  await refreshInTurn().catch((error) => {
    if (!signal.aborted) fail(error);
  });
  if (search.has('search')) find.focus();
  const soon = gathered(700, () => refreshInTurn().catch(() => {}), signal);
  addEventListener('everypage:uploaded', soon, { signal });
  follow('/v1/events', { on: soon, poll: refreshInTurn, ms: 3000, signal });
  every(1000, () => state.items.forEach((job) => update(body.known.get(job.id), job)), signal);
}

/** The focus goes to the next or the last row's link. */
function step(body, by) {
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
  const [, status, pages, took, cost, came] = element.children;
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
  setText(came.firstChild, ago(job.created_at));
}

/** What a reader should know before opening it. */
function remark(job, result) {
  if (!result) return job.error ? job.error.reason : '';
  const parts = [];
  const { mupdf_fallback_count: all, timeout_fallback_pages: late, missing_pages: missing } = result;
  // Each page once: those out of time and those without text have fallen back as well.
  const lateWithText = late.filter((page) => !missing.includes(page)).length;
  const fellBack = all - lateWithText - missing.length;
  if (fellBack > 0) parts.push(`${fellBack} fell back`);
  if (lateWithText) parts.push(`${lateWithText} out of time`);
  if (missing.length) parts.push(`${missing.length} without text`);
  if (job.result.version > 1) parts.push(`version ${job.result.version}`);
  return parts.join(' · ');
}
