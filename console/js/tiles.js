// The pages of a job as tiles, coloured by state.

import { h, keyed, setText } from './dom.js';
import { count, duration, timeOfDay } from './format.js';
import { describeWait } from './job/waiting.js';
import { PAGE, pageState } from './labels.js';

/** Up to this many pages, tiles show the model and the opening words; with more, number and symbol only. */
export const MAX_LARGE_TILES = 239;

const NEXT = { ArrowRight: 1, ArrowLeft: -1 };

export function tiles(jobId) {
  const legend = h('ul', { class: 'legend', 'aria-label': 'Pages by source' });
  const grid = h('ol', { class: 'tiles', 'aria-label': 'Pages' });
  let list = [];
  let texts = new Map();

  // A single stop for the Tab key; arrow keys move between tiles.
  grid.addEventListener('keydown', (event) => {
    const links = [...grid.querySelectorAll('a')];
    const at = links.indexOf(event.target);
    if (at < 0) return;
    const columns = getComputedStyle(grid).gridTemplateColumns.split(' ').length;
    const by = NEXT[event.key] ?? { ArrowDown: columns, ArrowUp: -columns }[event.key];
    const to = { Home: 0, End: links.length - 1 }[event.key] ?? (by === undefined ? undefined : at + by);
    if (to === undefined || !links[to]) return;
    event.preventDefault();
    links[at].tabIndex = -1;
    links[to].tabIndex = 0;
    links[to].focus();
  });

  function make(page) {
    return h(
      'li',
      {},
      h(
        'a',
        { href: `#/jobs/${jobId}/pages/${page.page}`, tabindex: -1 },
        h('span', { class: 'tile-number' }, String(page.page)),
        h('span', { class: 'tile-symbol', 'aria-hidden': 'true' }),
        h('span', { class: 'tile-model' }),
        h('span', { class: 'tile-text' }),
      ),
    );
  }

  /** Writes only to tiles that changed: of thousands, few change in one refresh. */
  function update(element, page) {
    const text = texts.get(page.page) ?? '';
    if (element.page === page && element.text === text) return;
    element.page = page;
    element.text = text;
    setText(element.firstChild.children[3], text);
    const state = pageState(page);
    const { provider, model, source, waiting, started_at: startedAt, settled_at: settledAt } = page;
    const { fallback_reason: reason } = page;
    const wait = waiting && describeWait(waiting);
    const version = [state, provider, model, source, startedAt, settledAt, reason, wait].join();
    if (element.version === version) return;
    element.version = version;
    const link = element.firstChild;
    link.className = `tile ${state}`;
    link.dataset.state = state;
    setText(link.children[1], PAGE[state].symbol);
    const own = source && state !== 'missing' ? 'MuPDF' : '';
    setText(link.children[2], waiting ? `until ${timeOfDay(waiting.until)}` : (model ?? own));
    const took = startedAt && settledAt ? new Date(settledAt) - new Date(startedAt) : undefined;
    const description = [
      `Page ${page.page} ${PAGE[state].phrase}`,
      model && `${provider} ${model}`,
      took && duration(took),
      reason,
      wait,
    ]
      .filter(Boolean)
      .join(', ');
    link.setAttribute('aria-label', description);
    link.title = description;
  }

  /** `opening` has the first words of each page, by number. */
  function render(pages, opening) {
    texts = opening;
    const areSame = pages.length === list.length && pages.every(({ page }, at) => page === list[at].page);
    list = pages;
    if (areSame) pages.forEach((page, at) => update(grid.children[at], page));
    else {
      grid.classList.toggle('dense', pages.length > MAX_LARGE_TILES);
      keyed(grid, pages, (page) => page.page, make, update);
      if (!grid.querySelector('a[tabindex="0"]')) grid.querySelector('a')?.setAttribute('tabindex', '0');
    }
    const counts = {};
    for (const page of pages) counts[pageState(page)] = (counts[pageState(page)] ?? 0) + 1;
    keyed(
      legend,
      Object.keys(PAGE).filter((state) => counts[state]),
      (state) => state,
      (state) =>
        h(
          'li',
          { 'data-state': state },
          h('span', { class: `swatch ${state}`, 'aria-hidden': 'true' }, PAGE[state].symbol),
          h('span', {}, PAGE[state].name),
          h('strong', {}),
        ),
      (element, state) => setText(element.lastChild, count(counts[state])),
    );
  }

  return { element: h('div', { class: 'tile-view' }, legend, grid), render };
}
