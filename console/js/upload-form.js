// A place to drop documents, with the options of the next uploads.

import { h } from './dom.js';
import { icon } from './icons.js';
import { choice, field } from './parts.js';
import { chooseFiles, options } from './uploads.js';

/** Where documents are dropped, and what is to become of the next ones. */
export function uploadForm() {
  // Blanks are part of a password, and of nothing else.
  const said = (name, value) => (name === 'password' ? value : value.trim());
  const keep = (name) => (event) => (options[name] = said(name, event.target.value) || undefined);
  const text = (name, label, placeholder, hint) =>
    field(
      label,
      h('input', {
        name,
        placeholder,
        autocomplete: 'off',
        value: options[name] ?? '',
        oninput: keep(name),
        type: name === 'password' ? 'password' : 'text',
      }),
      hint,
    );
  const pick = (name, label, list) => {
    const select = choice(name, [['', 'As configured'], ...list], options[name]);
    select.addEventListener('change', keep(name));
    return field(label, select);
  };
  return h(
    'div',
    { class: 'drop card' },
    h(
      'div',
      { class: 'drop-face' },
      icon('upload'),
      h(
        'p',
        {},
        h('strong', {}, 'Drop PDFs anywhere'),
        ' or ',
        h('button', { type: 'button', class: 'link', onclick: chooseFiles }, 'choose files'),
        '. Every page ends with text, inside the deadline.',
      ),
    ),
    h(
      'details',
      {},
      h('summary', {}, 'Options'),
      h(
        'form',
        { class: 'fields', onsubmit: (event) => event.preventDefault() },
        text('pages', 'Pages', 'all', 'Such as 1-10,12,40-'),
        pick('ai_pages', 'Pages for AI', [
          ['graphics', 'Those that need eyes'],
          ['all', 'All'],
        ]),
        pick('tier', 'Model asked first', [
          ['primary', 'Primary'],
          ['fast', 'Fast'],
          ['secondary', 'Secondary'],
        ]),
        pick('engine', 'Provider asked first', [
          ['openai', 'OpenAI'],
          ['anthropic', 'Anthropic'],
        ]),
        text('deadline', 'Deadline', 'as configured', 'Such as 90s, 5m or 1h'),
        pick(
          'priority',
          'Priority',
          ['low', 'normal', 'high', 'critical', 'urgent'].map((name) => [name, name[0].toUpperCase() + name.slice(1)]),
        ),
        text('password', 'Password', '', 'For encrypted documents'),
      ),
    ),
  );
}
