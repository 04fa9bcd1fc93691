// The drop area for documents, with the options of the next uploads.

import { choice, field } from './components.js';
import { h } from './dom.js';
import { icon } from './icons.js';
import { AI_PAGES, COSTS, PRIORITIES, providerChoices, TIERS } from './labels.js';
import { me } from './session.js';
import { chooseFiles, options } from './uploads.js';

export function uploadForm() {
  // Spaces are significant in a password only.
  const clean = (name, value) => (name === 'password' ? value : value.trim());
  const store = (name) => (event) => (options[name] = clean(name, event.target.value) || undefined);
  const text = (name, label, placeholder, hint) =>
    field(
      label,
      h('input', {
        name,
        placeholder,
        autocomplete: 'off',
        value: options[name] ?? '',
        oninput: store(name),
        type: name === 'password' ? 'password' : 'text',
      }),
      hint,
    );
  const pick = (name, label, choices) => {
    const select = choice(name, [['', 'Default'], ...choices], options[name]);
    select.addEventListener('change', store(name));
    return field(label, select);
  };
  const check = (name, label, hint) =>
    field(
      label,
      h('input', {
        name,
        type: 'checkbox',
        checked: Boolean(options[name]),
        onchange: (event) => (options[name] = event.target.checked || undefined),
      }),
      hint,
    );
  return h(
    'div',
    { class: 'drop card' },
    h(
      'div',
      { class: 'drop-prompt' },
      icon('upload'),
      h(
        'p',
        {},
        h('strong', {}, 'Drop PDFs or images anywhere'),
        ' or ',
        h('button', { type: 'button', class: 'link', onclick: chooseFiles }, 'choose files'),
        '. Every page gets its text by the deadline.',
      ),
    ),
    h(
      'details',
      {},
      h('summary', {}, 'Options'),
      h(
        'form',
        { class: 'fields', onsubmit: (event) => event.preventDefault() },
        text('pages', 'Pages', 'all', 'For example 1-10,12,40-'),
        pick('ai_pages', 'Pages for AI', AI_PAGES),
        pick('tier', 'Model tier', TIERS),
        pick('provider', 'Provider', providerChoices(me.providers)),
        text('failover', 'Order of models', 'default', 'For example openai:gpt-5.4,gemini:gemini-3.8-flash'),
        text('deadline', 'Deadline', 'default', 'For example 90s, 5m or 1h'),
        text('patience', 'Patience', 'default', 'How long a page is tried again: deadline, a time, or 0'),
        pick('priority', 'Priority', PRIORITIES),
        pick('cost', 'Price of calls', COSTS),
        text('budget_usd', 'Budget in US dollars', 'default', 'Pages beyond it keep their own text'),
        check('force', 'Process again', 'Also if the same document was uploaded with the same options'),
        text('password', 'Password', '', 'For encrypted documents'),
      ),
    ),
  );
}
