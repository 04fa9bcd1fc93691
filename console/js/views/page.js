// One page: its image with the blocks on it, next to its text, and its model calls.

import { get } from '../api.js';
import { h, setText } from '../dom.js';
import { count, duration, money } from '../format.js';
import { icon } from '../icons.js';
import { describeWait } from '../job/waiting.js';
import { DOUBT, isOpen, PAGE, pageState, REASON } from '../labels.js';
import { every } from '../live.js';
import { linkedBlocks } from '../page/blocks.js';
import { calls } from '../page/calls.js';
import { image } from '../page/image.js';
import { selection } from '../page/selection.js';
import { text } from '../page/text.js';
import { setViewShortcuts } from '../shortcuts.js';

const POLL_INTERVAL = 1500;

/** The pages of the job that was shown last. */
let known;

export async function show(root, [id, digits], signal) {
  const number = Number(digits);
  const path = `/v1/jobs/${id}`;
  let pages = known?.id === id ? known.pages : selection('all', Infinity);
  const addressOf = (page) => `#/jobs/${id}/pages/${page}`;
  const goTo = (page) => pages.has(page) && (location.hash = addressOf(page));
  const blocks = linkedBlocks();
  const content = text(number, blocks);
  const picture = image(number, signal);
  // Set before anything is fetched, so that paging through a document does not wait for each page.
  setViewShortcuts([
    ['ArrowLeft', 'Previous page', () => goTo(pages.before(number))],
    ['ArrowRight', 'Next page', () => goTo(pages.after(number))],
    ['k', 'Previous page', () => goTo(pages.before(number))],
    ['j', 'Next page', () => goTo(pages.after(number))],
    ['m', 'Switch between result and MuPDF text', content.toggle],
    ['v', 'Switch between rendered and plain text', content.toggleView],
    ['b', 'Show or hide the outlines of blocks', picture.toggleOutlines],
    ['Escape', 'Back to the job', () => (location.hash = `#/jobs/${id}`)],
  ]);
  const [job, first] = await Promise.all([get(path, signal), get(`${path}/pages/${number}`, signal)]);
  document.title = `Page ${number} · ${job.document.name} · Everypage`;
  const last = job.pages?.document ?? number;
  pages = selection(job.options.pages, last);
  known = { id, pages };

  const state = h('span', { class: 'swatch-name' });
  const message = h('p', { class: 'message' });
  const trust = h('p', { class: 'hint confidence' });
  const history = calls(job.created_at);
  root.append(
    h(
      'p',
      { class: 'breadcrumbs' },
      h('a', { href: '#/jobs' }, 'Jobs'),
      ' / ',
      h('a', { href: `#/jobs/${id}` }, job.document.name),
    ),
    h(
      'div',
      { class: 'head' },
      h('div', { class: 'head-title' }, h('h1', {}, `Page ${number}`), state),
      pager(number, pages, last, addressOf, goTo),
    ),
    message,
    trust,
    h('div', { class: 'side-by-side' }, picture.element, content.element),
    history.element,
  );

  function render(page) {
    const label = PAGE[pageState(page)];
    state.replaceChildren(
      h('span', { class: `swatch ${pageState(page)}`, 'aria-hidden': 'true' }, label.symbol),
      h('span', {}, label.name),
    );
    setText(message, summary(page));
    setText(trust, confidence(page));
    trust.hidden = !trust.textContent;
    content.render(page);
    history.render(page.settlements, page.status === 'settled' ? [] : page.calls);
  }

  render(first);
  picture.draw(first.image, first.blocks?.length && first.box && blocks.outlines(first.blocks, first.box));
  if (!isOpen(job) || first.status === 'settled') return;
  const over = new AbortController();
  const refresh = async () => {
    const page = await get(`${path}/pages/${number}`, signal);
    render(page);
    if (page.status === 'settled') over.abort();
  };
  every(POLL_INTERVAL, refresh, AbortSignal.any([signal, over.signal]));
}

function pager(number, pages, last, addressOf, goTo) {
  const input = h('input', {
    type: 'number',
    min: 1,
    max: last,
    value: number,
    'aria-label': 'Page number',
    onchange: () => goTo(Number(input.value)),
  });
  const link = (page, iconName, name) =>
    page
      ? h('a', { class: 'button', href: addressOf(page), 'aria-label': name, title: name }, icon(iconName))
      : h('span', { class: 'button', 'aria-disabled': 'true', role: 'link', 'aria-label': name }, icon(iconName));
  return h(
    'div',
    { class: 'actions pager' },
    link(pages.before(number), 'left', 'Previous page'),
    input,
    h('span', { class: 'hint' }, `of ${count(last)}`),
    link(pages.after(number), 'right', 'Next page'),
  );
}

/** Model, fallback reason, classification, duration and cost, as far as they are known. */
function summary(page) {
  const took = page.started_at && page.settled_at && Date.parse(page.settled_at) - Date.parse(page.started_at);
  const parts = [
    page.model && `${page.provider} ${page.model}`,
    page.waiting && `Waiting for a model: ${describeWait(page.waiting)}`,
    page.fallback_reason && `Fallback reason: ${page.fallback_reason}`,
    page.reason && (REASON[page.reason] ?? page.reason),
    took && duration(took),
    page.cost_micro_usd > 0 && money(page.cost_micro_usd),
  ];
  return parts.filter(Boolean).join(' · ');
}

/** How sure the text is, and why it is not surer. */
function confidence(page) {
  if (page.confidence === undefined) return page.source === 'ai' ? 'Not checked: the page has no text to compare it with.' : '';
  const share = `${Math.round(page.confidence * 100)} %`;
  if (page.source === 'ai') return `Checked: the AI's text has ${share} of the words and numbers of the page's own text.`;
  const doubts = (page.doubts ?? []).map((doubt) => DOUBT[doubt] ?? doubt);
  return `Confidence ${share}${doubts.length ? `: ${doubts.join('; ')}` : ''}.`;
}
