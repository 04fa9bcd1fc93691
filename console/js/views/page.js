// One page: its image beside its text, and how it got it.

import { get } from '../api.js';
import { h, setText } from '../dom.js';
import { count, duration, money } from '../format.js';
import { icon } from '../icons.js';
import { every } from '../live.js';
import { history } from '../page/history.js';
import { selection } from '../page/selection.js';
import { sheet } from '../page/sheet.js';
import { text } from '../page/text.js';
import { inView } from '../shortcuts.js';
import { isOpen, PAGE, pageState, REASON } from '../words.js';

const LOOK = 1500;

/** The pages of the job that was looked at last. */
let known;

export async function show(root, [id, digits], signal) {
  const number = Number(digits);
  const path = `/v1/jobs/${id}`;
  let pages = known?.id === id ? known.pages : selection('all', Infinity);
  const at = (page) => `#/jobs/${id}/pages/${page}`;
  const to = (page) => pages.has(page) && (location.hash = at(page));
  const words = text(number);
  // Before anything is read: who leafs through a document does not wait for its pages.
  inView([
    ['ArrowLeft', 'Page before', () => to(pages.before(number))],
    ['ArrowRight', 'Next page', () => to(pages.after(number))],
    ['k', 'Page before', () => to(pages.before(number))],
    ['j', 'Next page', () => to(pages.after(number))],
    ['m', "The result's text or MuPDF's", words.other],
    ['Escape', 'Back to the job', () => (location.hash = `#/jobs/${id}`)],
  ]);
  const [job, first] = await Promise.all([get(path, signal), get(`${path}/pages/${number}`, signal)]);
  document.title = `Page ${number} · ${job.document.name} · Everypage`;
  const last = job.pages?.document ?? number;
  pages = selection(job.options.pages, last);
  known = { id, pages };

  const state = h('span', { class: 'swatch-name' });
  const about = h('p', { class: 'message' });
  const image = sheet(number, signal);
  const calls = history(job.created_at);
  root.append(
    h(
      'p',
      { class: 'crumbs' },
      h('a', { href: '#/jobs' }, 'Jobs'),
      ' / ',
      h('a', { href: `#/jobs/${id}` }, job.document.name),
    ),
    h(
      'div',
      { class: 'head' },
      h('div', { class: 'head-title' }, h('h1', {}, `Page ${number}`), state),
      pager(number, pages, last, at, to),
    ),
    about,
    h('div', { class: 'beside' }, image.element, words.element),
    calls.element,
  );

  function render(page) {
    const now = PAGE[pageState(page)];
    state.replaceChildren(
      h('span', { class: `swatch ${pageState(page)}`, 'aria-hidden': 'true' }, now.sign),
      h('span', {}, now.name),
    );
    setText(about, sentence(page));
    words.render(page);
    calls.render(page.settlements);
  }

  render(first);
  image.draw(first.image);
  if (!isOpen(job) || first.status === 'settled') return;
  const over = new AbortController();
  const look = async () => {
    const page = await get(`${path}/pages/${number}`, signal);
    render(page);
    if (page.status === 'settled') over.abort();
  };
  every(LOOK, look, AbortSignal.any([signal, over.signal]));
}

function pager(number, pages, last, at, to) {
  const jump = h('input', {
    type: 'number',
    min: 1,
    max: last,
    value: number,
    'aria-label': 'Page number',
    onchange: () => to(Number(jump.value)),
  });
  const link = (page, symbol, name) =>
    page
      ? h('a', { class: 'button', href: at(page), 'aria-label': name, title: name }, icon(symbol))
      : h('span', { class: 'button', 'aria-disabled': 'true', role: 'link', 'aria-label': name }, icon(symbol));
  return h(
    'div',
    { class: 'actions pager' },
    link(pages.before(number), 'left', 'Page before'),
    jump,
    h('span', { class: 'hint' }, `of ${count(last)}`),
    link(pages.after(number), 'right', 'Next page'),
  );
}

/** Who read it, why, how long it took and what it cost, as far as there is something to say. */
function sentence(page) {
  const took = page.started_at && page.settled_at && Date.parse(page.settled_at) - Date.parse(page.started_at);
  const parts = [
    page.model && `${page.provider} ${page.model}`,
    page.why,
    page.reason && (REASON[page.reason] ?? page.reason),
    took && duration(took),
    page.cost_micro_usd > 0 && money(page.cost_micro_usd),
  ];
  return parts.filter(Boolean).join(' · ');
}
