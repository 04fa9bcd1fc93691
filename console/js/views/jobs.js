// The list of jobs: newest first, by status and by name, with a place to drop documents.

import { get, query } from '../api.js';
import { h, keyed, setText } from '../dom.js';
import { ago, between, count, duration, exactTime, money } from '../format.js';
import { icon } from '../icons.js';
import { every, follow, gathered } from '../live.js';
import { badge, button, empty, setBadge } from '../parts.js';
import { inView } from '../shortcuts.js';
import { uploadForm } from '../upload-form.js';
import { chooseFiles } from '../uploads.js';
import { isOpen, STATUS } from '../words.js';

const PIECE = 50;
const MOST_PIECES = 40;
/** A list does not say how far its jobs are; of so many it is asked. */
const MOST_ASKED = 8;

const FILTERS = [
  ['', 'All'],
  ...['processing', 'awaiting_approval', 'success', 'failed', 'cancelled', 'rejected'].map((status) => [
    status,
    STATUS[status].name,
  ]),
];

export async function show(root, _, signal, search) {
  document.title = 'Jobs · Everypage';
  const state = {
    status: search.get('status') ?? '',
    text: search.get('q') ?? '',
    items: [],
    next: undefined,
    pieces: 1,
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
    () => {
      state.pieces += 1;
      refresh().catch(() => {});
    },
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
    state.pieces = 1;
    history.replaceState(null, '', `#/jobs${query({ status: state.status, q: state.text })}`);
    refresh().catch((error) => signal.aborted || fail(error));
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

  async function refresh() {
    const asked = `${state.status}|${state.text}|${state.pieces}`;
    const items = [];
    let cursor;
    // A piece may hold few jobs that fit, or none, and have more after it.
    for (let asked = 0; asked < MOST_PIECES; asked += 1) {
      const answer = await get(
        `/v1/jobs${query({ limit: PIECE, status: state.status, search: state.text, cursor })}`,
        signal,
      );
      items.push(...answer.items);
      cursor = answer.next;
      if (!cursor || items.length >= state.pieces * PIECE) break;
    }
    const unknown = items.filter((job) => isOpen(job) && job.progress === undefined).slice(0, MOST_ASKED);
    await Promise.all(unknown.map(async (job) => Object.assign(job, await get(`/v1/jobs/${job.id}`, signal))));
    // An answer to what was asked before must not replace one to what is asked now.
    if (asked !== `${state.status}|${state.text}|${state.pieces}`) return;
    state.items = items;
    keyed(body, items, (job) => job.id, row, update);
    more.hidden = !cursor;
    table.hidden = items.length === 0;
    nothing.hidden = items.length > 0;
    if (!items.length) {
      nothing.replaceChildren(
        state.status || state.text
          ? empty('No job fits.', 'Try another name or status.')
          : empty('No documents yet.', 'Drop a PDF anywhere on this page, or press u to choose one.'),
      );
    }
    setText(summary, `${items.length}${cursor ? ' or more' : ''} jobs`);
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
  await refresh().catch((error) => {
    if (!signal.aborted) fail(error);
  });
  if (search.has('search')) find.focus();
  const soon = gathered(700, () => refresh().catch(() => {}), signal);
  addEventListener('everypage:uploaded', soon, { signal });
  follow('/v1/events', { on: soon, poll: refresh, ms: 3000, signal });
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
    h('td', {}, badge(STATUS[job.status]), h('span', { class: 'sub' })),
    h('td', { class: 'number' }),
    h('td', { class: 'number' }),
    h('td', { class: 'number' }),
    h('td', { class: 'number' }, h('time', { datetime: job.created_at, title: exactTime(job.created_at) })),
  );
}

function update(element, job) {
  const [, status, pages, took, cost, came] = element.children;
  const result = job.result?.metadata;
  setBadge(status.firstChild, STATUS[job.status]);
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
  if (result.mupdf_fallback_count) parts.push(`${result.mupdf_fallback_count} fell back`);
  if (result.timeout_fallback_pages.length) parts.push(`${result.timeout_fallback_pages.length} out of time`);
  if (result.missing_pages.length) parts.push(`${result.missing_pages.length} without text`);
  if (job.result.version > 1) parts.push(`version ${job.result.version}`);
  return parts.join(' · ');
}
