// The models: circuit breakers and calls in flight, live.

import { get } from '../api.js';
import { badge, empty, setBadge } from '../components.js';
import { h, keyed, setText } from '../dom.js';
import { ago, count, duration, plural } from '../format.js';
import { BREAKER } from '../labels.js';
import { every } from '../live.js';

const POLL_INTERVAL = 1000;
/** Slots that are drawn one by one; above it, the number is enough. */
const MAX_DRAWN_SLOTS = 40;

export async function show(root, _, signal) {
  document.title = 'Models · Everypage';
  const cards = h('ul', { class: 'models' });
  const lanes = h('ul', { class: 'lanes' });
  const queue = h('section', { class: 'card', 'aria-label': 'Queue' }, h('h2', {}, 'Queued pages by priority'), lanes);
  const none = empty(
    'No failing models and no calls in flight.',
    'A circuit breaker is listed until ten minutes after its last change.',
  );
  const live = h('span', { class: 'live', role: 'img', 'aria-label': 'Live' });
  root.append(
    h('div', { class: 'head' }, h('div', { class: 'head-title' }, h('h1', {}, 'Models'), live)),
    h(
      'p',
      { class: 'message' },
      'Circuit breakers: state and cooldown of each model. An open breaker skips the model until the cooldown ends; then a single call probes it.',
    ),
    cards,
    none,
    queue,
  );

  async function refresh() {
    // A server without `/v1/load` still has breakers.
    const [breakers, load] = await Promise.all([
      get('/v1/breakers', signal),
      get('/v1/load', signal).catch(() => ({ models: [], lanes: [] })),
    ]);
    const models = new Map(load.models.map((model) => [model.target, model]));
    for (const breaker of breakers.items) models.set(breaker.target, { ...models.get(breaker.target), ...breaker });
    const list = [...models.values()].sort((a, b) => a.target.localeCompare(b.target));
    keyed(cards, list, (model) => model.target, card, update);
    none.hidden = list.length > 0;
    queue.hidden = load.lanes.length === 0;
    const max = Math.max(1, ...load.lanes.map(({ waiting }) => waiting));
    keyed(
      lanes,
      load.lanes,
      (lane) => lane.priority,
      (lane) =>
        h(
          'li',
          {},
          h('span', {}, lane.priority),
          h('progress', { 'aria-label': `Queued pages, ${lane.priority}` }),
          h('strong', {}),
        ),
      (element, lane) => {
        element.children[1].max = max;
        element.children[1].value = lane.waiting;
        setText(element.lastChild, count(lane.waiting));
      },
    );
  }

  await refresh();
  every(POLL_INTERVAL, refresh, signal);
}

function card(model) {
  const [provider, ...rest] = model.target.split(':');
  const name = rest.join(':');
  return h(
    'li',
    { class: 'card model', 'data-target': model.target },
    h(
      'div',
      { class: 'model-head' },
      h('div', {}, h('h2', {}, name === '*' ? 'All models' : name), h('p', { class: 'hint' }, `Provider: ${provider}`)),
      badge(BREAKER.closed),
    ),
    h('p', { class: 'model-status' }),
    h('div', { class: 'slots', 'aria-hidden': 'true' }),
    h('p', { class: 'hint model-slots' }),
    h('p', { class: 'model-cause' }),
  );
}

function statusOf(state, openUntil) {
  if (state === 'half_open') return 'Probe call in flight';
  if (state !== 'open') return 'Accepting calls';
  const left = openUntil ? Date.parse(openUntil) - Date.now() : 0;
  if (left > 0) return `Cooldown: ${duration(Math.ceil(left / 1000) * 1000)} left`;
  return 'Cooldown ended; the next page probes it';
}

function update(element, model) {
  const state = model.state ?? 'closed';
  setBadge(element.querySelector('.badge'), BREAKER[state]);
  element.dataset.state = state;
  const trips = model.trips > 1 ? ` · opened ${plural(model.trips, 'time')} in a row` : '';
  setText(element.querySelector('.model-status'), `${statusOf(state, model.open_until)}${trips}`);
  // With a closed breaker, the cause is that of an earlier failure.
  const prefix = state === 'closed' ? 'Last failure: ' : '';
  const since = model.changed_at ? ` · ${ago(model.changed_at)}` : '';
  setText(element.querySelector('.model-cause'), model.cause ? `${prefix}${model.cause}${since}` : '');
  const { limit, in_flight: inFlight } = model;
  const slots = element.querySelector('.slots');
  slots.hidden = limit === undefined;
  if (limit === undefined) return;
  const drawn = Math.min(limit, MAX_DRAWN_SLOTS);
  if (slots.childElementCount !== drawn) slots.replaceChildren(...Array.from({ length: drawn }, () => h('span', {})));
  [...slots.children].forEach((slot, at) => slot.classList.toggle('used', at < inFlight));
  setText(element.querySelector('.model-slots'), `In-flight limit: ${inFlight} of ${plural(limit, 'slot')} in use`);
}
