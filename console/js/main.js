// Starts the console: identifies the caller, renders the page frame, and shows the view of the address.

import { configure, get } from './api.js';
import { empty } from './components.js';
import { h, setText } from './dom.js';
import { count } from './format.js';
import { icon } from './icons.js';
import { every } from './live.js';
import { showError } from './notices.js';
import { hasKey, identify, isOperator, me, removeKey, requestKey } from './session.js';
import { setGlobalShortcuts, setViewShortcuts, showShortcuts } from './shortcuts.js';
import { onTheme, toggle } from './theme.js';
import { acceptDrops, chooseFiles } from './uploads.js';
import * as account from './views/account.js';
import * as deadLetters from './views/dead-letters.js';
import * as job from './views/job.js';
import * as jobs from './views/jobs.js';
import * as models from './views/models.js';
import * as notices from './views/notices.js';
import * as page from './views/page.js';
import * as stats from './views/stats.js';

const DEAD_LETTERS_POLL_INTERVAL = 5000;

/** Pattern of the address, view, and its entry in the navigation. */
const ROUTES = [
  [/^\/jobs$/, jobs, 'jobs'],
  [/^\/jobs\/([\w-]+)\/pages\/(\d+)$/, page, 'jobs'],
  [/^\/jobs\/([\w-]+)(?:\/([a-z]+))?$/, job, 'jobs'],
  [/^\/dead-letters$/, deadLetters, 'dead-letters'],
  [/^\/notices$/, notices, 'notices'],
  [/^\/models$/, models, 'models'],
  [/^\/stats$/, stats, 'stats'],
  [/^\/account$/, account, 'account'],
];

const NAVIGATION = [
  { label: 'Jobs', name: 'jobs', iconName: 'jobs', keys: 'g j' },
  { label: 'Dead letters', name: 'dead-letters', iconName: 'deadLetters', keys: 'g d', forOperators: true },
  { label: 'Notices', name: 'notices', iconName: 'notices', keys: 'g n', forOperators: true },
  { label: 'Models', name: 'models', iconName: 'models', keys: 'g m', forOperators: true },
  { label: 'Statistics', name: 'stats', iconName: 'stats', keys: 'g s' },
  { label: 'Account', name: 'account', iconName: 'account', keys: 'g a' },
];

const navigation = () => NAVIGATION.filter(({ forOperators }) => !forOperators || isOperator());

const content = document.getElementById('content');
let current;

function markCurrent() {
  for (const link of document.querySelectorAll('#nav a')) {
    if (link.dataset.name === current?.name) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
}

const backToJobs = () => h('a', { href: '#/jobs' }, 'Back to jobs');

/** Shows the view of the address. The signal of the previous view ends its requests and timers. */
async function show() {
  const [path, search] = (location.hash.slice(1) || '/jobs').split('?');
  const found = ROUTES.map(([pattern, view, name]) => ({ match: path.match(pattern), view, name })).find(
    ({ match }) => match,
  );
  const parts = found?.match.slice(1);
  // Another tab of the same view keeps the view and its state.
  if (found && current?.view === found.view && found.view.go?.(parts)) return;
  const isFirst = !current;
  current?.over.abort();
  const over = new AbortController();
  current = { view: found?.view, name: found?.name, over };
  setViewShortcuts([]);
  markCurrent();
  const root = h('div', { class: 'view' });
  content.replaceChildren(root);
  scrollTo(0, 0);
  if (!found) {
    root.append(h('h1', {}, 'Page not found'), empty(`There is nothing at ${path}.`, backToJobs()));
    return;
  }
  try {
    await found.view.show(root, parts, over.signal, new URLSearchParams(search));
  } catch (error) {
    if (over.signal.aborted) return;
    root.replaceChildren(h('h1', {}, 'Something went wrong'), empty(error.message, backToJobs()));
  }
  // The focused element went away with the previous view: focus the heading, so that screen readers announce it.
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

/** Renders the sidebar for the current caller. */
function renderSidebar() {
  document
    .getElementById('nav')
    .replaceChildren(
      ...navigation().map(({ label, name, iconName }) =>
        h(
          'a',
          { href: `#/${name}`, 'data-name': name },
          icon(iconName),
          h('span', {}, label),
          name === 'dead-letters' && h('span', { class: 'pill', id: 'dead-letter-count', hidden: true }),
        ),
      ),
    );
  document.getElementById('sidebar-footer').replaceChildren(
    me.tenant && h('p', { class: 'identity' }, h('strong', {}, me.tenant), h('span', {}, `${me.user} · ${me.role}`)),
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
          onclick: showShortcuts,
        },
        icon('keyboard'),
      ),
      hasKey() &&
        h(
          'button',
          {
            type: 'button',
            class: 'icon-button',
            'aria-label': 'Remove API key',
            title: 'Remove API key',
            onclick: removeKey,
          },
          icon('key'),
        ),
      me.version && h('span', { class: 'version' }, me.version),
    ),
  );
}

/** Shows the number of dead letters in the navigation. */
async function countDeadLetters() {
  const { dead_letters: number } = await get('/v1/load');
  const pill = document.getElementById('dead-letter-count');
  pill.hidden = number === 0;
  setText(pill, count(number));
  pill.setAttribute('aria-label', `${number} waiting`);
}

function renderShortcuts() {
  setGlobalShortcuts([
    ...navigation().map(({ label, name, keys }) => [keys, label, () => (location.hash = `#/${name}`)]),
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
    ['t', 'Switch between light and dark theme', toggle],
    ['?', 'Keyboard shortcuts', showShortcuts],
  ]);
}

let counting;

/** Renders everything that depends on the caller, except the view. */
function renderFrame() {
  renderSidebar();
  renderShortcuts();
  markCurrent();
  counting?.abort();
  counting = new AbortController();
  if (isOperator()) every(DEAD_LETTERS_POLL_INTERVAL, countDeadLetters, counting.signal)();
}

/** A new key may belong to another user, tenant or role: identifies the caller and renders again. */
async function onKeyChanged() {
  const before = JSON.stringify(me);
  await identify();
  renderFrame();
  if (JSON.stringify(me) === before) return;
  current?.over.abort();
  current = undefined;
  await show();
}

addEventListener(
  'everypage:connection',
  ({ detail: isConnected }) => (document.getElementById('offline').hidden = isConnected),
);

document.getElementById('skip').addEventListener('click', (event) => {
  // The address holds the view, so a jump inside the page must not change it.
  event.preventDefault();
  content.focus();
});

try {
  await configure(requestKey);
  await identify();
} catch (error) {
  showError(error);
}
renderFrame();
acceptDrops();
addEventListener('hashchange', show);
addEventListener('everypage:key', () => onKeyChanged().catch(showError));
await show();
