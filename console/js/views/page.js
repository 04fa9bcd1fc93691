// One page: its image beside its text, and how it got it.

import { get, request } from '../api.js';
import { h, setText } from '../dom.js';
import { count, duration, money, timeOfDay } from '../format.js';
import { icon } from '../icons.js';
import { every } from '../live.js';
import { notice, trouble } from '../notices.js';
import { button, copy, empty } from '../parts.js';
import { inView } from '../shortcuts.js';
import { ATTEMPT, isOpen, PAGE, pageState, REASON } from '../words.js';

const LOOK = 1500;

export async function show(root, [id, text], signal) {
  const number = Number(text);
  const path = `/v1/jobs/${id}`;
  const at = (page) => `#/jobs/${id}/pages/${page}`;
  const to = (page) => page >= 1 && page <= last && (location.hash = at(page));
  let last = Infinity;
  let otherText = () => {};
  // Before anything is read: who leafs through a document does not wait for its pages.
  inView([
    ['ArrowLeft', 'Page before', () => to(number - 1)],
    ['ArrowRight', 'Next page', () => to(number + 1)],
    ['k', 'Page before', () => to(number - 1)],
    ['j', 'Next page', () => to(number + 1)],
    ['m', "The result's text or MuPDF's", () => otherText()],
    ['Escape', 'Back to the job', () => (location.hash = `#/jobs/${id}`)],
  ]);
  const [job, first] = await Promise.all([get(path, signal), get(`${path}/pages/${number}`, signal)]);
  document.title = `Page ${number} · ${job.document.name} · Everypage`;
  last = job.pages?.document ?? number;

  const state = h('span', { class: 'swatch-name' });
  const about = h('p', { class: 'message' });
  const figure = h('figure', { class: 'sheet card' });
  const words = h('pre', { class: 'text', tabindex: 0, 'aria-label': `Text of page ${number}` });
  const source = h('div', { class: 'segments', role: 'group', 'aria-label': 'Whose text' });
  const history = h('section', { class: 'card flush', 'aria-label': 'Attempts' });
  const jump = h('input', {
    type: 'number',
    min: 1,
    max: last,
    value: number,
    'aria-label': 'Page number',
    onchange: () => to(Number(jump.value)),
  });
  const link = (page, symbol, name) =>
    page >= 1 && page <= last
      ? h('a', { class: 'button', href: at(page), 'aria-label': name, title: name }, icon(symbol))
      : h('span', { class: 'button', 'aria-disabled': 'true', role: 'link', 'aria-label': name }, icon(symbol));

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
      h(
        'div',
        { class: 'actions pager' },
        link(number - 1, 'left', 'Page before'),
        jump,
        h('span', { class: 'hint' }, `of ${count(last)}`),
        link(number + 1, 'right', 'Next page'),
      ),
    ),
    about,
    h(
      'div',
      { class: 'beside' },
      figure,
      h(
        'section',
        { class: 'card words', 'aria-label': 'Text' },
        h(
          'div',
          { class: 'bar' },
          source,
          button('Copy', 'copy', () => copy(words.textContent).then(() => notice('Copied'), trouble)),
        ),
        words,
      ),
    ),
    history,
  );

  let page = first;
  let whose = 'text';

  function renderText() {
    const differs = page.mupdf_text !== undefined && page.mupdf_text !== page.text;
    const choices = [
      ['text', page.source === 'ai' ? 'AI' : page.source ? 'Result' : 'So far'],
      ...(differs ? [['mupdf_text', 'MuPDF']] : []),
    ];
    source.replaceChildren(
      ...choices.map(([name, label]) =>
        h(
          'button',
          {
            type: 'button',
            'aria-pressed': String(name === whose),
            onclick: () => {
              whose = name;
              renderText();
            },
          },
          label,
        ),
      ),
    );
    const content = page[whose] ?? '';
    setText(words, content);
    words.classList.toggle('none', !content.trim());
    if (!content.trim()) setText(words, 'Nothing could be read here.');
  }

  function render() {
    const now = pageState(page);
    state.replaceChildren(
      h('span', { class: `swatch ${now}`, 'aria-hidden': 'true' }, PAGE[now].sign),
      h('span', {}, PAGE[now].name),
    );
    setText(
      about,
      [
        page.model && `${page.provider} ${page.model}`,
        page.why,
        page.reason && `${REASON[page.reason] ?? page.reason}`,
        page.started_at && page.settled_at && duration(Date.parse(page.settled_at) - Date.parse(page.started_at)),
        page.cost_micro_usd > 0 && money(page.cost_micro_usd),
      ]
        .filter(Boolean)
        .join(' · '),
    );
    renderText();
    renderHistory();
  }

  function renderHistory() {
    // Servers that tell no history tell the attempts of the latest time.
    const times = page.settlements ?? (page.attempts.length ? [page] : []);
    if (!times.length)
      return history.replaceChildren(h('h2', {}, 'Attempts'), empty('No model was asked for this page.'));
    history.replaceChildren(
      h('h2', {}, 'Attempts'),
      h(
        'table',
        { class: 'rows' },
        h('caption', { class: 'unseen' }, 'Every call for this page, oldest first'),
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            ['Started', 'Model', 'Result', 'Took', 'Tokens in, out', 'Cost'].map((name, index) =>
              h('th', { scope: 'col', class: index > 2 ? 'number' : '' }, name),
            ),
          ),
        ),
        times.map((time) =>
          h(
            'tbody',
            {},
            time.attempts.map((attempt) =>
              h(
                'tr',
                {},
                h('td', { class: 'nowrap' }, timeOfDay(attempt.started_at)),
                h('td', {}, `${attempt.provider} ${attempt.model}`),
                h(
                  'td',
                  {},
                  h(
                    'span',
                    { class: `badge ${ATTEMPT[attempt.result].tone}` },
                    h('span', { class: 'sign', 'aria-hidden': 'true' }, ATTEMPT[attempt.result].sign),
                    h('span', {}, ATTEMPT[attempt.result].name),
                  ),
                  attempt.detail && h('span', { class: 'sub' }, attempt.detail),
                ),
                h('td', { class: 'number' }, duration(attempt.latency_ms)),
                h('td', { class: 'number' }, `${count(attempt.input_tokens)}, ${count(attempt.output_tokens)}`),
                h('td', { class: 'number' }, money(attempt.cost_micro_usd)),
              ),
            ),
            h(
              'tr',
              { class: 'settled' },
              h('td', { class: 'nowrap' }, time.settled_at ? timeOfDay(time.settled_at) : ''),
              h(
                'td',
                { colspan: 5 },
                `Settled: ${PAGE[time.source].name}${time.why ? `, ${time.why}` : ''}`,
              ),
            ),
          ),
        ),
      ),
    );
  }

  /** The link carries no key, so the image is fetched and shown from memory. */
  async function drawImage() {
    if (!page.image) return figure.replaceChildren(empty('No image of this page is kept.'));
    try {
      const url = URL.createObjectURL(await (await request(page.image.href, { signal })).blob());
      signal.addEventListener('abort', () => URL.revokeObjectURL(url), { once: true });
      const image = h('img', { src: url, alt: `Page ${number} as it looks` });
      const zoom = h(
        'button',
        {
          type: 'button',
          class: 'sheet-zoom',
          'aria-pressed': 'false',
          'aria-label': 'Full size',
          onclick: () => zoom.setAttribute('aria-pressed', String(figure.classList.toggle('full'))),
        },
        image,
      );
      figure.replaceChildren(
        zoom,
        h('figcaption', {}, page.image.sent ? 'As the models saw it' : 'Drawn for you; no model saw it'),
      );
    } catch (error) {
      if (!signal.aborted) figure.replaceChildren(empty('There is no image of this page.', error.message));
    }
  }

  otherText = () => {
    whose = whose === 'text' && page.mupdf_text !== undefined ? 'mupdf_text' : 'text';
    renderText();
  };
  render();
  drawImage();
  if (isOpen(job)) {
    const over = new AbortController();
    every(
      LOOK,
      async () => {
        page = await get(`${path}/pages/${number}`, signal);
        render();
        if (page.status === 'settled') over.abort();
      },
      AbortSignal.any([signal, over.signal]),
    );
  }
}
