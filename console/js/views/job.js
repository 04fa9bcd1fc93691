// One job, live: its pages, its result, its attempts, its trail, and what can be done with it.

import { all, get } from '../api.js';
import { h, setText } from '../dom.js';
import { between, bytes, capital, count, duration, exactTime, money, plural } from '../format.js';
import { actions } from '../job/actions.js';
import { approval } from '../job/approval.js';
import { attempts } from '../job/attempts.js';
import { details } from '../job/details.js';
import { result } from '../job/result.js';
import { steps } from '../job/steps.js';
import { trail } from '../job/trail.js';
import { every, follow, gathered } from '../live.js';
import { trouble } from '../notices.js';
import { badge, empty, loading, setBadge } from '../parts.js';
import { inView } from '../shortcuts.js';
import { tabs } from '../tabs.js';
import { tiles } from '../tiles.js';
import { isOpen, isOver, statusOf } from '../words.js';

const TABS = [
  ['pages', 'Pages'],
  ['result', 'Result'],
  ['attempts', 'Attempts'],
  ['trail', 'Trail'],
  ['details', 'Details'],
];

/** Who holds a page is not told by events; small jobs are asked more often. */
const LOOK_AT_PAGES = (pages) => Math.min(10_000, 1000 + pages * 5);
/** An ended job may be healed or redriven by somebody else. */
const LOOK_AT_ENDED = 4000;
/** Models have two minutes to heal a job; so long after it nobody waits for them any more. */
const LONGEST_HEALING = 150_000;

let here;

/** Another tab of the job that is shown. */
export function go([id, tab]) {
  if (here?.id !== id) return false;
  here.choose(tab ?? 'pages');
  return true;
}

export async function show(root, [id, tab], signal) {
  const model = { job: undefined, pages: new Map(), hasPages: false, events: new Map(), hasEvents: false };
  model.retry = () => {
    model.trouble = undefined;
    render();
    loadEvents().catch(trouble);
  };
  const path = `/v1/jobs/${id}`;
  inView([
    ...TABS.map(([name, label], at) => [String(at + 1), label, () => (location.hash = `#/jobs/${id}/${name}`)]),
    ['Escape', 'Back to the jobs', () => (location.hash = '#/jobs')],
  ]);
  model.job = await get(path, signal);
  here = { id, choose };
  signal.addEventListener('abort', () => here?.id === id && (here = undefined), { once: true });

  const grid = tiles(id);
  const title = h('h1', { class: 'name' });
  const status = badge(statusOf(model.job));
  const message = h('p', { class: 'message' });
  // Said to whoever listens, and only when something came to its end.
  const said = h('p', { class: 'unseen', role: 'status' });
  const wayOut = h('p', { hidden: true }, h('a', { href: '#/account' }, 'To the account'));
  const meter = h('progress', { max: 100, 'aria-label': 'Progress' });
  const clock = h('span', { class: 'clock' });
  const life = steps();
  const panels = {
    pages: { element: h('div', {}, grid.element), render: renderPages },
    result: result(model, path, signal),
    attempts: attempts(model),
    trail: trail(model),
    details: details(model),
  };
  const plan = approval(model, path, changed);
  const bar = actions(model, path, { changed, beforeHealing: loadEvents, healing });
  const waiting = h('div', { hidden: true });
  panels.pages.element.append(waiting);

  const parts = Object.fromEntries(Object.entries(panels).map(([name, panel]) => [name, panel.element]));
  const list = tabs('Parts of the job', TABS, (name) => `#/jobs/${id}/${name}`, parts);
  let current;

  root.append(
    h('p', { class: 'crumbs' }, h('a', { href: '#/jobs' }, 'Jobs')),
    h('div', { class: 'head' }, h('div', { class: 'head-title' }, title, status), bar.element),
    h('div', { class: 'progress-line' }, meter, clock),
    message,
    said,
    wayOut,
    life.element,
    plan.element,
    list.element,
    ...Object.values(parts),
  );

  function choose(name) {
    current = list.choose(name);
    if (['attempts', 'trail'].includes(current) && !model.hasEvents) loadEvents().catch(trouble);
    panels[current].render();
  }

  function renderPages() {
    const pages = [...model.pages.values()].sort((a, b) => a.page - b.page);
    grid.render(pages);
    grid.element.hidden = pages.length === 0;
    waiting.hidden = pages.length > 0;
    if (!pages.length) waiting.replaceChildren(withoutPages());
  }

  function withoutPages() {
    const { job } = model;
    if (job.pages && !model.hasPages) return loading();
    if (isOpen(job)) return empty('The document is being opened.');
    return empty(job.pages ? 'No page was read.' : 'The document was never opened.', job.message);
  }

  function render() {
    const { job } = model;
    document.title = `${job.document.name} · Everypage`;
    setText(title, job.document.name);
    setBadge(status, statusOf(job));
    setText(message, sentence(job));
    wayOut.hidden = !job.error?.reason.startsWith('not enough credits');
    meter.value = job.progress ?? 0;
    meter.className = statusOf(job).tone;
    life.render(job);
    bar.render();
    plan.render();
    if (current) panels[current].render();
    tick();
  }

  function tick() {
    const { job } = model;
    if (isOpen(job) && job.deadline) {
      const left = new Date(job.deadline) - Date.now();
      setText(clock, left > 0 ? `${duration(Math.ceil(left / 1000) * 1000)} to the deadline` : 'deadline: publishing');
    } else if (job.started_at && job.finished_at) {
      setText(clock, `took ${duration(between(job.started_at, job.finished_at))}`);
    }
    clock.title = job.deadline ? `Deadline ${exactTime(job.deadline)}` : '';
  }

  const renderSoon = gathered(150, render, signal);

  async function loadPages() {
    if (!model.job.pages) return;
    const items = await all(`${path}/pages`, { signal });
    for (const page of items) model.pages.set(page.page, page);
    model.hasPages = true;
    renderSoon();
  }

  async function loadEvents() {
    try {
      for (const event of await all(`${path}/events`, { signal, limit: 1000 })) model.events.set(event.id, event);
      model.hasEvents = true;
      model.trouble = undefined;
    } catch (error) {
      if (!model.hasEvents) model.trouble = error.message;
      throw error;
    } finally {
      renderSoon();
    }
  }

  function heard(kind, data) {
    if (kind === 'job') return changed(data);
    model.events.set(data.id, data);
    const page = model.pages.get(Number(data.aggregate?.match(/\/page\/(\d+)$/)?.[1]));
    // Pages are shown all or none: those that are not listed yet will be, as they are by then.
    if (kind === 'page.settled' && page) {
      const { target, ...outcome } = data.data;
      const cost = outcome.attempts.reduce((sum, attempt) => sum + attempt.cost_micro_usd, 0);
      // Another value, not the same one changed: so its tile is seen to be old.
      model.pages.set(page.page, { ...page, status: 'settled', ...outcome, ...target, cost_micro_usd: cost });
    }
    renderSoon();
  }

  /** The job is now so; what belongs to it is read again when it has come to something new. */
  function changed(job) {
    const before = model.job;
    model.job = job;
    const isNew =
      (!before.pages && job.pages) ||
      (isOpen(before) && !isOpen(job)) ||
      before.result?.version !== job.result?.version ||
      before.plan?.version !== job.plan?.version;
    if (isNew) {
      loadPages().catch(() => {});
      if (model.hasEvents) loadEvents().catch(() => {});
    }
    if (isOver(before) && !isOver(job)) watch();
    if (isOpen(before) && !isOpen(job)) setText(said, `${job.document.name}: ${statusOf(job).name}. ${sentence(job)}`);
    else if (isNew && job.result?.version > before.result?.version) setText(said, `Version ${job.result.version} is there`);
    renderSoon();
  }

  const refresh = async () => {
    changed(await get(path, signal));
    if (isOpen(model.job) || !model.hasPages) await loadPages();
  };

  let watched;
  function watch() {
    watched?.abort();
    watched = new AbortController();
    const both = AbortSignal.any([signal, watched.signal]);
    follow(`${path}/events`, { on: heard, poll: refresh, ms: 1500, signal: both, isOver: () => isOver(model.job) });
    every(
      () => LOOK_AT_PAGES(model.pages.size),
      async () => {
        if (isOver(model.job)) watched.abort();
        else if (isOpen(model.job)) await loadPages();
      },
      both,
    );
  }

  const timesSettled = (page) =>
    [...model.events.values()].filter(
      ({ type, aggregate }) => type === 'page.settled' && aggregate.endsWith(`/page/${page}`),
    ).length;

  /** Pages of an ended job are read once more: follows until each of them is settled again. */
  function healing(pages) {
    const before = new Map(pages.map((page) => [page, timesSettled(page)]));
    const until = Date.now() + LONGEST_HEALING;
    const over = new AbortController();
    model.healing = true;
    renderSoon();
    every(
      () => LOOK_AT_PAGES(model.pages.size),
      async () => {
        await loadEvents();
        const isDone = pages.every((page) => timesSettled(page) > before.get(page)) || Date.now() > until;
        if (isDone) {
          over.abort();
          model.healing = false;
        }
        await refresh();
        renderSoon();
      },
      AbortSignal.any([signal, over.signal]),
    );
  }

  choose(tab ?? 'pages');
  render();
  await loadPages().catch(trouble);
  if (signal.aborted) return;
  if (!isOver(model.job)) watch();
  every(LOOK_AT_ENDED, () => isOver(model.job) && refresh(), signal);
  every(1000, tick, signal);
}

/** What is going on, in one line. */
function sentence(job) {
  const parts = [capital(job.message)];
  if (job.pages) parts.push(plural(job.pages.selected, 'page'));
  if (job.document.bytes) parts.push(bytes(job.document.bytes));
  const figures = job.result?.metadata;
  if (figures) parts.push(`${count(figures.final_ai_pages)} read by AI`);
  if (figures?.missing_pages.length) parts.push(`${count(figures.missing_pages.length)} without text`);
  if (figures) parts.push(money(figures.cost_micro_usd));
  if (job.result) parts.push(`version ${job.result.version}`);
  return parts.join(' · ');
}
