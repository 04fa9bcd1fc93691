// The pages of a job as tiles that turn from grey to green.

import { h, keyed, setText } from './dom.js';
import { count, duration } from './format.js';
import { PAGE, pageState } from './words.js';

/** From here on tiles are small: their number and sign only. */
const MANY = 240;

const NEXT = { ArrowRight: 1, ArrowLeft: -1 };

export function tiles(jobId) {
  const legend = h('ul', { class: 'legend', 'aria-label': 'Pages by source' });
  const grid = h('ol', { class: 'tiles', 'aria-label': 'Pages' });
  let list = [];

  // One stop for Tab; arrows go from tile to tile.
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
        h('span', { class: 'tile-sign', 'aria-hidden': 'true' }),
        h('span', { class: 'tile-by' }),
      ),
    );
  }

  /** Writes only what changed: of thousands of tiles few do at a time. */
  function update(element, page) {
    if (element.page === page) return;
    element.page = page;
    const state = pageState(page);
    const now = [state, page.provider, page.model, page.source, page.started_at, page.settled_at, page.why].join();
    if (element.shown === now) return;
    element.shown = now;
    const link = element.firstChild;
    link.className = `tile ${state}`;
    link.dataset.state = state;
    setText(link.children[1], PAGE[state].sign);
    setText(link.children[2], page.model ?? (page.source && state !== 'missing' ? 'MuPDF' : ''));
    const took = page.started_at && page.settled_at ? new Date(page.settled_at) - new Date(page.started_at) : undefined;
    const says = [
      `Page ${page.page} ${PAGE[state].says}`,
      page.model && `${page.provider} ${page.model}`,
      took && duration(took),
      page.why,
    ]
      .filter(Boolean)
      .join(', ');
    link.setAttribute('aria-label', says);
    link.title = says;
  }

  function render(pages) {
    const areSame = pages.length === list.length && pages.every(({ page }, at) => page === list[at].page);
    list = pages;
    if (areSame) pages.forEach((page, at) => update(grid.children[at], page));
    else {
      grid.classList.toggle('dense', pages.length >= MANY);
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
          h('span', { class: `swatch ${state}`, 'aria-hidden': 'true' }, PAGE[state].sign),
          h('span', {}, PAGE[state].name),
          h('strong', {}),
        ),
      (element, state) => setText(element.lastChild, count(counts[state])),
    );
  }

  return { element: h('div', { class: 'tile-view' }, legend, grid), render, pages: () => list };
}
