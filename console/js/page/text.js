// The text of a page: that of the result, and MuPDF's where it differs.

import { button, copy } from '../components.js';
import { h, keyed, setText } from '../dom.js';
import { notice, showError } from '../notices.js';

export function text(number) {
  const content = h('pre', { class: 'text', tabindex: 0, 'aria-label': `Text of page ${number}` });
  const choice = h('div', { class: 'segments', role: 'group', 'aria-label': 'Text source' });
  const copyText = () => copy(content.textContent).then(() => notice('Copied'), showError);
  const element = h(
    'section',
    { class: 'card page-text', 'aria-label': 'Text' },
    h('div', { class: 'bar' }, choice, button('Copy', 'copy', copyText)),
    content,
  );
  let page;
  let shown = 'text';

  const differs = () => page.mupdf_text !== undefined && page.mupdf_text !== page.text;

  function choose(name) {
    shown = name;
    render(page);
  }

  function render(now) {
    page = now;
    const label = { text: page.source === 'ai' ? 'AI' : page.source ? 'Result' : 'Preliminary', mupdf_text: 'MuPDF' };
    keyed(
      choice,
      differs() ? ['text', 'mupdf_text'] : ['text'],
      (name) => name,
      (name) => h('button', { type: 'button', onclick: () => choose(name) }),
      (element, name) => {
        setText(element, label[name]);
        element.setAttribute('aria-pressed', String(name === shown));
      },
    );
    const value = (page[shown] ?? '').trimEnd();
    setText(content, value || 'This page has no text.');
    content.classList.toggle('none', !value);
  }

  return { element, render, toggle: () => page && choose(shown === 'text' && differs() ? 'mupdf_text' : 'text') };
}
