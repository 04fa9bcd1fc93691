// The models: which rest and why, and which calls are out, live.

import { get } from '../api.js';
import { h, keyed, setText } from '../dom.js';
import { ago, count, duration, plural } from '../format.js';
import { every } from '../live.js';
import { badge, empty, setBadge } from '../parts.js';
import { BREAKER } from '../words.js';

const LOOK = 1000;
/** Slots that are drawn one by one; of more the number is enough. */
const MOST_DRAWN = 40;

export async function show(root, _, signal) {
  document.title = 'Models · Everypage';
  const cards = h('ul', { class: 'models' });
  const lanes = h('ul', { class: 'lanes' });
  const lanesCard = h('section', { class: 'card', 'aria-label': 'Queue' }, h('h2', {}, 'Pages in the queue'), lanes);
  const none = empty(
    'No model failed lately and none is in use.',
    'A breaker is forgotten ten minutes after its last change.',
  );
  root.append(
    h(
      'div',
      { class: 'head' },
      h('div', { class: 'head-title' }, h('h1', {}, 'Models'), h('span', { class: 'live', role: 'img', 'aria-label': 'Live' })),
    ),
    h(
      'p',
      { class: 'message' },
      'A model that fails is passed by until its rest is over; then one call, and only one, tries it again.',
    ),
    cards,
    none,
    lanesCard,
  );

  async function refresh() {
    // Servers without figures of their load still know their breakers.
    const [breakers, load] = await Promise.all([
      get('/v1/breakers', signal),
      get('/v1/load', signal).catch(() => ({ models: [], lanes: [] })),
    ]);
    const models = new Map(load.models.map((model) => [model.target, model]));
    for (const breaker of breakers.items) models.set(breaker.target, { ...models.get(breaker.target), ...breaker });
    const list = [...models.values()].sort((a, b) => a.target.localeCompare(b.target));
    keyed(cards, list, (model) => model.target, card, update);
    none.hidden = list.length > 0;
    lanesCard.hidden = load.lanes.length === 0;
    const most = Math.max(1, ...load.lanes.map(({ waiting }) => waiting));
    keyed(
      lanes,
      load.lanes,
      (lane) => lane.priority,
      (lane) =>
        h(
          'li',
          {},
          h('span', {}, lane.priority),
          h('progress', { 'aria-label': `${lane.priority}: pages` }),
          h('strong', {}),
        ),
      (element, lane) => {
        element.children[1].max = most;
        element.children[1].value = lane.waiting;
        setText(element.lastChild, count(lane.waiting));
      },
    );
  }

  await refresh();
  every(LOOK, refresh, signal);
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
      h('div', {}, h('h2', {}, name === '*' ? 'Every model' : name), h('p', { class: 'hint' }, provider)),
      badge(BREAKER.closed),
    ),
    h('p', { class: 'model-says' }),
    h('div', { class: 'slots', 'aria-hidden': 'true' }),
    h('p', { class: 'hint model-slots' }),
    h('p', { class: 'model-cause' }),
  );
}

function update(element, model) {
  const state = model.state ?? 'closed';
  setBadge(element.querySelector('.badge'), BREAKER[state]);
  element.dataset.state = state;
  const left = model.open_until ? Date.parse(model.open_until) - Date.now() : 0;
  const says =
    state === 'open'
      ? left > 0
        ? `Rests for ${duration(Math.ceil(left / 1000) * 1000)} more`
        : 'Its rest is over; the next page tries it'
      : state === 'half_open'
        ? 'One call tries it now'
        : 'Takes calls';
  setText(
    element.querySelector('.model-says'),
    `${says}${model.trips > 1 ? ` · opened ${plural(model.trips, 'time')} in a row` : ''}`,
  );
  // Of a model that takes calls it is past.
  const isPast = state === 'closed';
  const since = model.changed_at ? ` · ${ago(model.changed_at)}` : '';
  const cause = model.cause ? `${isPast ? 'Last failure: ' : ''}${model.cause}${since}` : '';
  setText(element.querySelector('.model-cause'), cause);
  const slots = element.querySelector('.slots');
  slots.hidden = model.most === undefined;
  if (model.most === undefined) return;
  const drawn = Math.min(model.most, MOST_DRAWN);
  if (slots.childElementCount !== drawn) slots.replaceChildren(...Array.from({ length: drawn }, () => h('span', {})));
  [...slots.children].forEach((slot, at) => slot.classList.toggle('used', at < model.in_flight));
  setText(element.querySelector('.model-slots'), `${model.in_flight} of ${plural(model.most, 'slot')} in use`);
}
