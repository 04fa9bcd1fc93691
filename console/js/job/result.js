// The result: every published version, in every format.

import { query, request } from '../api.js';
import { button, choice, copy, empty, field } from '../components.js';
import { h, setText } from '../dom.js';
import { bytes } from '../format.js';
import { notice, showError } from '../notices.js';

const FORMATS = { text: ['Text', 'txt'], markdown: ['Markdown', 'md'], json: ['JSON', 'json'] };
/** Larger results are slow in a browser: download them. */
const MAX_SHOWN_BYTES = 2_000_000;

export function result(model, path, signal) {
  const text = h('pre', { class: 'text', tabindex: 0, 'aria-label': 'Result text' });
  const info = h('span', { class: 'hint' });
  const format = choice(
    'format',
    Object.entries(FORMATS).map(([name, [label]]) => [name, label]),
    'text',
  );
  const versions = h('select', {});
  const none = empty('No result yet.', 'It is published when every page is settled, at the latest at the deadline.');
  const controls = h(
    'div',
    { class: 'bar' },
    field('Version', versions),
    field('Format', format),
    button('Download', 'download', () => download().catch(showError)),
    button('Copy', 'copy', () => copy(text.textContent).then(() => notice('Copied'), showError)),
    info,
  );
  const element = h('div', {}, controls, text, none);
  let latest = 0;
  let loaded;
  let whole;

  format.addEventListener('change', () => load().catch(showError));
  versions.addEventListener('change', () => load().catch(showError));

  const fetchResult = () =>
    request(`${path}/result${query({ format: format.value, version: versions.value })}`, { signal });

  async function load() {
    const wanted = `${format.value} ${versions.value}`;
    if (wanted === loaded) return;
    loaded = wanted;
    whole = await (await fetchResult()).blob();
    const content = await whole.slice(0, MAX_SHOWN_BYTES).text();
    if (wanted !== loaded) return;
    text.textContent = content;
    const cut = whole.size > MAX_SHOWN_BYTES ? `; the first ${bytes(MAX_SHOWN_BYTES)} are shown` : '';
    setText(info, `${bytes(whole.size)}${cut}`);
  }

  /** A plain link sends no API key, so the file is fetched first. */
  async function download() {
    await load();
    const url = URL.createObjectURL(whole);
    const name = model.job.document.name.replace(/\.pdf$/i, '');
    h('a', { href: url, download: `${name}.v${versions.value}.${FORMATS[format.value][1]}` }).click();
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
    if (version) load().catch(showError);
  }

  return { element, render };
}
