// The published text, every version of it.

import { query, request } from '../api.js';
import { h, setText } from '../dom.js';
import { bytes } from '../format.js';
import { notice, trouble } from '../notices.js';
import { button, choice, copy, empty, field } from '../parts.js';

const FORMS = { text: ['Text', 'txt'], markdown: ['Markdown', 'md'], json: ['JSON', 'json'] };
/** More than this is for an editor, not for a browser. */
const MOST_SHOWN = 2_000_000;

export function result(model, path, signal) {
  const text = h('pre', { class: 'text', tabindex: 0, 'aria-label': 'Text of the result' });
  const info = h('span', { class: 'hint' });
  const form = choice(
    'form',
    Object.entries(FORMS).map(([name, [label]]) => [name, label]),
    'text',
  );
  const versions = h('select', {});
  const none = empty('There is no result yet.', 'It is published when every page is settled, or at the deadline.');
  const controls = h(
    'div',
    { class: 'bar' },
    field('Version', versions),
    field('Form', form),
    button('Download', 'download', () => download().catch(trouble)),
    button('Copy', 'copy', () => copy(text.textContent).then(() => notice('Copied'), trouble)),
    info,
  );
  const element = h('div', {}, controls, text, none);
  let latest = 0;
  let loaded;
  let whole;

  form.addEventListener('change', () => load().catch(trouble));
  versions.addEventListener('change', () => load().catch(trouble));

  const fetchForm = () =>
    request(`${path}/result${query({ format: form.value, version: versions.value })}`, { signal });

  async function load() {
    const wanted = `${form.value} ${versions.value}`;
    if (wanted === loaded) return;
    loaded = wanted;
    whole = await (await fetchForm()).blob();
    const content = await whole.slice(0, MOST_SHOWN).text();
    if (wanted !== loaded) return;
    text.textContent = content;
    setText(
      info,
      whole.size > MOST_SHOWN ? `${bytes(whole.size)}; the first ${bytes(MOST_SHOWN)} are shown` : bytes(whole.size),
    );
  }

  /** The link carries no key, so the file is fetched first. */
  async function download() {
    await load();
    const url = URL.createObjectURL(whole);
    const name = model.job.document.name.replace(/\.pdf$/i, '');
    h('a', { href: url, download: `${name}.v${versions.value}.${FORMS[form.value][1]}` }).click();
    URL.revokeObjectURL(url);
  }

  function render() {
    const version = model.job.result?.version ?? 0;
    for (const part of [controls, text]) part.hidden = version === 0;
    none.hidden = version > 0;
    if (version !== latest) {
      versions.replaceChildren(
        ...Array.from({ length: version }, (_, at) =>
          h('option', { value: version - at }, at === 0 ? `${version} (latest)` : String(version - at)),
        ),
      );
      latest = version;
    }
    if (version) load().catch(trouble);
  }

  return { element, render };
}
