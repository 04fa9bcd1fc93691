// What was read on a page: the text of the result, and MuPDF's where it differs.

import { h, keyed, setText } from '../dom.js';
import { notice, trouble } from '../notices.js';
import { button, copy } from '../parts.js';

export function text(number) {
  const words = h('pre', { class: 'text', tabindex: 0, 'aria-label': `Text of page ${number}` });
  const choice = h('div', { class: 'segments', role: 'group', 'aria-label': 'Whose text' });
  const copyText = () => copy(words.textContent).then(() => notice('Copied'), trouble);
  const element = h(
    'section',
    { class: 'card words', 'aria-label': 'Text' },
    h('div', { class: 'bar' }, choice, button('Copy', 'copy', copyText)),
    words,
  );
  let page;
  let whose = 'text';

  const differs = () => page.mupdf_text !== undefined && page.mupdf_text !== page.text;

  function choose(name) {
    whose = name;
    render(page);
  }

  function render(now) {
    page = now;
    const label = { text: page.source === 'ai' ? 'AI' : page.source ? 'Result' : 'So far', mupdf_text: 'MuPDF' };
    keyed(
      choice,
      differs() ? ['text', 'mupdf_text'] : ['text'],
      (name) => name,
      (name) => h('button', { type: 'button', onclick: () => choose(name) }),
      (element, name) => {
        setText(element, label[name]);
        element.setAttribute('aria-pressed', String(name === whose));
      },
    );
    const content = (page[whose] ?? '').trimEnd();
    setText(words, content || 'Nothing could be read here.');
    words.classList.toggle('none', !content);
  }

  return { element, render, other: () => page && choose(whose === 'text' && differs() ? 'mupdf_text' : 'text') };
}
