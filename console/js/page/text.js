// The text of a page: that of the result, and MuPDF's where it differs; rendered, or as it is in the files.

import { button, copy } from '../components.js';
import { h, keyed, setText } from '../dom.js';
import { notice, showError } from '../notices.js';
import { markdown } from './markdown.js';

/** How texts are shown, kept while paging through a document. */
let view = 'rendered';

const VIEWS = { rendered: 'Rendered', plain: 'Text' };

/** A group of buttons of which one is pressed. */
function segments(label, onchoose) {
  const element = h('div', { class: 'segments', role: 'group', 'aria-label': label });
  const render = (names, shown) =>
    keyed(
      element,
      Object.keys(names),
      (name) => name,
      (name) => h('button', { type: 'button', onclick: () => onchoose(name) }),
      (item, name) => {
        setText(item, names[name]);
        item.setAttribute('aria-pressed', String(name === shown));
      },
    );
  return { element, render };
}

export function text(number, blocks) {
  const content = h('div', { tabindex: 0, role: 'region', 'aria-label': `Text of page ${number}` });
  const sources = segments('Text source', choose);
  const views = segments('View', (name) => {
    view = name;
    render(page);
  });
  const value = () => (page[shown] ?? '').trimEnd();
  const copyText = () => copy(value()).then(() => notice('Copied'), showError);
  const element = h(
    'section',
    { class: 'card page-text', 'aria-label': 'Text' },
    h(
      'div',
      { class: 'bar' },
      h('div', { class: 'actions' }, sources.element, views.element),
      button('Copy', 'copy', copyText),
    ),
    content,
  );
  let page;
  let shown = 'text';
  let drawn;

  const differs = () => page.mupdf_text !== undefined && page.mupdf_text !== page.text;

  function choose(name) {
    shown = name;
    render(page);
  }

  /** Our own reading is drawn from its blocks; what a model wrote is Markdown. */
  function rendered() {
    const isOwn = shown === 'mupdf_text' || page.source !== 'ai';
    return isOwn && page.blocks?.length ? blocks.document(page.blocks) : markdown(value());
  }

  function render(now) {
    page = now;
    const label = page.source === 'ai' ? 'AI' : page.source ? 'Result' : 'Preliminary';
    sources.render(differs() ? { text: label, mupdf_text: 'MuPDF' } : { text: label }, shown);
    views.render(VIEWS, view);
    // Drawn only when it changes, so that selection and scroll position survive a refresh.
    const key = JSON.stringify([shown, view, page.source, value()]);
    if (key === drawn) return;
    drawn = key;
    content.className = !value() ? 'text none' : view === 'rendered' ? 'rendered' : 'text';
    if (!value()) content.replaceChildren('This page has no text.');
    else content.replaceChildren(...(view === 'rendered' ? rendered() : [value()]));
  }

  return {
    element,
    render,
    toggle: () => page && choose(shown === 'text' && differs() ? 'mupdf_text' : 'text'),
    toggleView: () => {
      view = view === 'rendered' ? 'plain' : 'rendered';
      if (page) render(page);
    },
  };
}
