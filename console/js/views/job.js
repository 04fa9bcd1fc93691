// One job, live: its pages, result, model calls, audit trail, details and actions.

import { get, getAll } from '../api.js';
import { badge, empty, loading, setBadge } from '../components.js';
import { h, setText } from '../dom.js';
import { between, bytes, capital, count, duration, exactTime, money, plural } from '../format.js';
import { actions } from '../job/actions.js';
import { approval } from '../job/approval.js';
import { calls } from '../job/calls.js';
import { details } from '../job/details.js';
import { lifecycle } from '../job/lifecycle.js';
import { result } from '../job/result.js';
import { texts } from '../job/texts.js';
import { trail } from '../job/trail.js';
import { waitingLine } from '../job/waiting.js';
import { isOpen, isOver, statusOf } from '../labels.js';
import { every, follow, throttled } from '../live.js';
import { showError } from '../notices.js';
import { setViewShortcuts } from '../shortcuts.js';
import { tabs } from '../tabs.js';
import { tiles } from '../tiles.js';

const TABS = [
  ['pages', 'Pages'],
  ['result', 'Result'],
  ['calls', 'Model calls'],
  ['trail', 'Audit trail'],
  ['details', 'Details'],
];

/** Events do not report which pages are being processed, so they are polled; small jobs more often. */
const pagesPollInterval = (pages) => Math.min(10_000, 1000 + pages * 5);
/** Another user may heal or redrive a finished job. */
const FINISHED_POLL_INTERVAL = 4000;
/** Healing has a deadline of two minutes; after this time the console stops waiting for it. */
const HEALING_TIMEOUT = 150_000;

let shown;

/** Shows another tab of the current job. Returns false for another job. */
export function go([id, tab]) {
  if (shown?.id !== id) return false;
  shown.choose(tab ?? 'pages');
  return true;
}

export async function show(root, [id, tab], signal) {
  const model = { job: undefined, pages: new Map(), hasPages: false, events: new Map(), hasEvents: false };
  model.retry = () => {
    model.error = undefined;
    render();
    loadEvents().catch(showError);
  };
  const path = `/v1/jobs/${id}`;
  setViewShortcuts([
    ...TABS.map(([name, label], at) => [String(at + 1), label, () => (location.hash = `#/jobs/${id}/${name}`)]),
    ['Escape', 'Back to jobs', () => (location.hash = '#/jobs')],
  ]);
  model.job = await get(path, signal);
  shown = { id, choose };
  signal.addEventListener('abort', () => shown?.id === id && (shown = undefined), { once: true });

  const grid = tiles(id);
  const wait = waitingLine();
  const loadTexts = texts(model, path, signal);
  const title = h('h1', { class: 'name' });
  const status = badge(statusOf(model.job));
  const message = h('p', { class: 'message' });
  // For screen readers: announced only when the job ends or a new version is published.
  const announcement = h('p', { class: 'visually-hidden', role: 'status' });
  const accountLink = h('p', { hidden: true }, h('a', { href: '#/account' }, 'Go to account'));
  const meter = h('progress', { max: 100, 'aria-label': 'Progress' });
  const clock = h('span', { class: 'clock' });
  const cycle = lifecycle();
  const panels = {
    pages: { element: h('div', {}, wait.element, grid.element), render: renderPages },
    result: result(model, path, signal),
    calls: calls(model),
    trail: trail(model),
    details: details(model),
  };
  const plan = approval(model, path, onChanged);
  const bar = actions(model, path, { onChanged, beforeHealing: loadEvents, onHealing });
  const waiting = h('div', { hidden: true });
  panels.pages.element.append(waiting);

  const parts = Object.fromEntries(Object.entries(panels).map(([name, panel]) => [name, panel.element]));
  const list = tabs('Job', TABS, (name) => `#/jobs/${id}/${name}`, parts);
  let current;

  root.append(
    h('p', { class: 'breadcrumbs' }, h('a', { href: '#/jobs' }, 'Jobs')),
    h('div', { class: 'head' }, h('div', { class: 'head-title' }, title, status), bar.element),
    h('div', { class: 'progress-line' }, meter, clock),
    message,
    announcement,
    accountLink,
    cycle.element,
    plan.element,
    list.element,
    ...Object.values(parts),
  );

  function choose(name) {
    current = list.choose(name);
    if (['calls', 'trail'].includes(current) && !model.hasEvents) loadEvents().catch(showError);
    panels[current].render();
  }

  function renderPages() {
    const pages = [...model.pages.values()].sort((a, b) => a.page - b.page);
    grid.render(pages, model.texts);
    wait.render(pages);
    grid.element.hidden = pages.length === 0;
    waiting.hidden = pages.length > 0;
    if (!pages.length) waiting.replaceChildren(withoutPages());
  }

  function withoutPages() {
    const { job } = model;
    if (job.pages && !model.hasPages) return loading();
    if (isOpen(job)) return empty('The document is being opened.');
    return empty(job.pages ? 'No pages were read.' : 'The document was never opened.', job.message);
  }

  function render() {
    const { job } = model;
    document.title = `${job.document.name} · Everypage`;
    setText(title, job.document.name);
    setBadge(status, statusOf(job));
    setText(message, summary(job));
    accountLink.hidden = !job.error?.reason.startsWith('not enough credits');
    meter.value = job.progress ?? 0;
    meter.className = statusOf(job).tone;
    cycle.render(job);
    bar.render();
    plan.render();
    if (current) panels[current].render();
    tick();
  }

  function tick() {
    const { job } = model;
    if (isOpen(job) && job.deadline) {
      const left = new Date(job.deadline) - Date.now();
      const remaining = `${duration(Math.ceil(left / 1000) * 1000)} to deadline`;
      setText(clock, left > 0 ? remaining : 'deadline reached, publishing');
    } else if (job.started_at && job.finished_at) {
      setText(clock, `took ${duration(between(job.started_at, job.finished_at))}`);
    }
    clock.title = job.deadline ? `Deadline ${exactTime(job.deadline)}` : '';
  }

  const renderSoon = throttled(150, render, signal);

  async function loadPages() {
    if (!model.job.pages) return;
    const items = await getAll(`${path}/pages`, { signal });
    for (const page of items) model.pages.set(page.page, page);
    model.hasPages = true;
    renderSoon();
    // Without them the tiles show what is known anyway.
    await loadTexts().then(renderSoon, () => {});
  }

  async function loadEvents() {
    try {
      for (const event of await getAll(`${path}/events`, { signal, limit: 1000 })) model.events.set(event.id, event);
      model.hasEvents = true;
      model.error = undefined;
    } catch (error) {
      if (!model.hasEvents) model.error = error.message;
      throw error;
    } finally {
      renderSoon();
    }
  }

  function onEvent(kind, data) {
    if (kind === 'job') return onChanged(data);
    model.events.set(data.id, data);
    const page = model.pages.get(Number(data.aggregate?.match(/\/page\/(\d+)$/)?.[1]));
    // Before the list of pages is fetched, the event is dropped: the list will include its outcome.
    if (kind === 'page.settled' && page) {
      const { target, ...outcome } = data.data;
      const cost = outcome.calls.reduce((sum, call) => sum + call.cost_micro_usd, 0);
      // A new object, not a changed one: tiles detect changes by identity.
      model.pages.set(page.page, { ...page, status: 'settled', waiting: undefined, ...outcome, ...target, cost_micro_usd: cost });
    }
    renderSoon();
  }

  /** Takes a new state of the job; fetches its pages and events when they have changed with it. */
  function onChanged(job) {
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
    if (isOpen(before) && !isOpen(job)) {
      setText(announcement, `${job.document.name}: ${statusOf(job).name}. ${summary(job)}`);
    } else if (isNew && job.result?.version > before.result?.version) {
      setText(announcement, `Version ${job.result.version} is published`);
    }
    renderSoon();
  }

  const refresh = async () => {
    onChanged(await get(path, signal));
    if (isOpen(model.job) || !model.hasPages) await loadPages();
  };

  let watched;
  function watch() {
    watched?.abort();
    watched = new AbortController();
    const both = AbortSignal.any([signal, watched.signal]);
    follow(`${path}/events`, { on: onEvent, poll: refresh, ms: 1500, signal: both, isOver: () => isOver(model.job) });
    every(
      () => pagesPollInterval(model.pages.size),
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

  /** Polls while pages of a finished job are read again, until each of them is settled. */
  function onHealing(pages) {
    const before = new Map(pages.map((page) => [page, timesSettled(page)]));
    const until = Date.now() + HEALING_TIMEOUT;
    const over = new AbortController();
    model.healing = true;
    renderSoon();
    every(
      () => pagesPollInterval(model.pages.size),
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
  await loadPages().catch(showError);
  if (signal.aborted) return;
  if (!isOver(model.job)) watch();
  every(FINISHED_POLL_INTERVAL, () => isOver(model.job) && refresh(), signal);
  every(1000, tick, signal);
}

/** The state of the job in one line. */
function summary(job) {
  const parts = [capital(job.message)];
  if (job.pages) parts.push(plural(job.pages.selected, 'page'));
  if (job.document.bytes) parts.push(bytes(job.document.bytes));
  const metadata = job.result?.metadata;
  if (metadata) parts.push(`${count(metadata.final_ai_pages)} read by AI`);
  if (metadata?.missing_pages) parts.push(`${count(metadata.missing_pages)} without text`);
  if (metadata) parts.push(money(metadata.cost_micro_usd));
  if (job.result) parts.push(`version ${job.result.version}`);
  return parts.join(' · ');
}
