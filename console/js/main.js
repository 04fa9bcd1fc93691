// Starts the console: who is asking, the frame around every view, and the view that is asked for.

import { configure, get } from './api.js';
import { h, setText } from './dom.js';
import { count } from './format.js';
import { icon } from './icons.js';
import { every } from './live.js';
import { trouble } from './notices.js';
import { empty } from './parts.js';
import { askForKey, forget, hasKey, identify, isOperator, me } from './session.js';
import { everywhere, inView, showAll } from './shortcuts.js';
import { onTheme, toggle } from './theme.js';
import { chooseFiles, takeDrops } from './uploads.js';
import * as account from './views/account.js';
import * as deadLetters from './views/dead-letters.js';
import * as figures from './views/figures.js';
import * as job from './views/job.js';
import * as jobs from './views/jobs.js';
import * as models from './views/models.js';
import * as page from './views/page.js';

const ROUTES = [
  [/^\/jobs$/, jobs, 'jobs'],
  [/^\/jobs\/([\w-]+)\/pages\/(\d+)$/, page, 'jobs'],
  [/^\/jobs\/([\w-]+)(?:\/([a-z]+))?$/, job, 'jobs'],
  [/^\/dead-letters$/, deadLetters, 'dead-letters'],
  [/^\/models$/, models, 'models'],
  [/^\/figures$/, figures, 'figures'],
  [/^\/account$/, account, 'account'],
];

const PLACES = [
  { name: 'Jobs', place: 'jobs', symbol: 'jobs', keys: 'g j' },
  { name: 'Dead letters', place: 'dead-letters', symbol: 'dead', keys: 'g d', operator: true },
  { name: 'Models', place: 'models', symbol: 'models', keys: 'g m', operator: true },
  { name: 'Figures', place: 'figures', symbol: 'figures', keys: 'g f' },
  { name: 'Account', place: 'account', symbol: 'account', keys: 'g a' },
];

const content = document.getElementById('content');
let shown;

function markPlace() {
  for (const link of document.querySelectorAll('#nav a')) {
    if (link.dataset.place === shown?.place) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
}

/** Shows what the address names. The old view is told by its signal that it is over. */
async function show() {
  const [path, search] = (location.hash.slice(1) || '/jobs').split('?');
  const found = ROUTES.map(([pattern, view, place]) => ({ match: path.match(pattern), view, place })).find(
    ({ match }) => match,
  );
  const parts = found?.match.slice(1);
  // A tab of the same thing is not another view: nothing is lost by going there.
  if (found && shown?.view === found.view && found.view.go?.(parts)) return;
  const isFirst = !shown;
  shown?.over.abort();
  const over = new AbortController();
  shown = { view: found?.view, place: found?.place, over };
  inView([]);
  markPlace();
  const root = h('div', { class: 'view' });
  content.replaceChildren(root);
  scrollTo(0, 0);
  if (!found) {
    root.append(
      h('h1', {}, 'Nothing here'),
      empty('There is no such page.', h('a', { href: '#/jobs' }, 'To the jobs')),
    );
    return;
  }
  try {
    await found.view.show(root, parts, over.signal, new URLSearchParams(search));
  } catch (error) {
    if (over.signal.aborted) return;
    root.replaceChildren(
      h('h1', {}, 'That did not work'),
      empty(error.message, h('a', { href: '#/jobs' }, 'To the jobs')),
    );
  }
  // What had the focus is gone with the old view: whoever listens hears where they are now.
  const title = root.querySelector('h1');
  if (!isFirst && !over.signal.aborted && document.activeElement === document.body) {
    title.tabIndex = -1;
    title.focus({ preventScroll: true });
  }
}

const theme = h('button', { type: 'button', class: 'icon-button', id: 'theme', onclick: toggle });
onTheme((name) => {
  const other = name === 'dark' ? 'light' : 'dark';
  theme.replaceChildren(icon(other === 'dark' ? 'moon' : 'sun'));
  theme.setAttribute('aria-label', `Switch to ${other} theme`);
  theme.title = `Switch to ${other} theme`;
});

/** What is around every view, for whoever is asking. */
function frame() {
  const places = PLACES.filter(({ operator }) => !operator || isOperator());
  document
    .getElementById('nav')
    .replaceChildren(
      ...places.map(({ name, place, symbol }) =>
        h(
          'a',
          { href: `#/${place}`, 'data-place': place },
          icon(symbol),
          h('span', {}, name),
          place === 'dead-letters' && h('span', { class: 'pill', id: 'dead-count', hidden: true }),
        ),
      ),
    );
  document.getElementById('foot').replaceChildren(
    me.tenant && h('p', { class: 'who' }, h('strong', {}, me.tenant), h('span', {}, `${me.user} · ${me.role}`)),
    h(
      'div',
      { class: 'tools' },
      theme,
      h(
        'button',
        {
          type: 'button',
          class: 'icon-button',
          'aria-label': 'Keyboard shortcuts',
          title: 'Keyboard shortcuts (?)',
          onclick: showAll,
        },
        icon('keyboard'),
      ),
      hasKey() &&
        h(
          'button',
          {
            type: 'button',
            class: 'icon-button',
            'aria-label': 'Forget the API key',
            title: 'Forget the API key',
            onclick: forget,
          },
          icon('key'),
        ),
      me.version && h('span', { class: 'version' }, me.version),
    ),
  );
}

/** How many letters wait, beside their place in the menu. */
async function countLetters() {
  const { dead_letters: waiting } = await get('/v1/load');
  const pill = document.getElementById('dead-count');
  pill.hidden = waiting === 0;
  setText(pill, count(waiting));
  pill.setAttribute('aria-label', `${waiting} waiting`);
}

function shortcuts() {
  const places = PLACES.filter(({ operator }) => !operator || isOperator());
  everywhere([
    ...places.map(({ name, place, keys }) => [keys, name, () => (location.hash = `#/${place}`)]),
    ['u', 'Upload documents', chooseFiles],
    [
      '/',
      'Search',
      () => {
        const field = document.querySelector('input[type=search]');
        if (field) field.focus();
        else location.hash = '#/jobs?search';
      },
    ],
    ['t', 'Light or dark', toggle],
    ['?', 'Keyboard shortcuts', showAll],
  ]);
}

let counting;

/** Everything that depends on who is asking, but the view. */
function surround() {
  frame();
  shortcuts();
  markPlace();
  counting?.abort();
  counting = new AbortController();
  if (isOperator()) every(5000, countLetters, counting.signal)();
}

/** Another key was given: it may be another person's, of another tenant, with another role. */
async function identifyAnew() {
  const before = JSON.stringify(me);
  await identify();
  surround();
  if (JSON.stringify(me) === before) return;
  shown?.over.abort();
  shown = undefined;
  await show();
}

addEventListener('everypage:answers', ({ detail: answers }) => (document.getElementById('silence').hidden = answers));

document.getElementById('skip').addEventListener('click', (event) => {
  // The address says which view is shown; a jump inside of the page must not change it.
  event.preventDefault();
  content.focus();
});

try {
  await configure(askForKey);
  await identify();
} catch (error) {
  trouble(error);
}
surround();
takeDrops();
addEventListener('hashchange', show);
addEventListener('everypage:key', () => identifyAnew().catch(trouble));
await show();
