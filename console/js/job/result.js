// The result: every published version, in every format; before the first, the document as it stands.

import { query, request } from '../api.js';
import { button, choice, copy, empty, field } from '../components.js';
import { h, setText } from '../dom.js';
import { bytes } from '../format.js';
import { isOpen } from '../labels.js';
import { notice, showError } from '../notices.js';

const FORMATS = { text: ['Text', 'txt'], markdown: ['Markdown', 'md'], json: ['JSON', 'json'], chunks: ['Chunks', 'chunks.jsonl'], words: ['Words', 'words.jsonl'], pdf: ['Searchable PDF', 'pdf'] };
const TABLES = { markdown: 'Markdown', html: 'HTML', auto: 'HTML where needed' };
/** The formats whose tables have a style. */
const WITH_TABLES = ['markdown', 'chunks'];
/** Larger results are slow in a browser: download them. */
const MAX_SHOWN_BYTES = 2_000_000;
/** A provisional result is the whole document; pages may settle many times a second. */
const MIN_RELOAD_INTERVAL = 2000;
const WHEN_PUBLISHED = 'is published when every page is settled, at the latest at the deadline';

export function result(model, path, signal) {
  const text = h('pre', { class: 'text', tabindex: 0, 'aria-label': 'Result text' });
  const info = h('span', { class: 'hint' });
  const format = choice(
    'format',
    Object.entries(FORMATS).map(([name, [label]]) => [name, label]),
    'text',
  );
  const tables = choice('tables', Object.entries(TABLES), 'markdown');
  const tablesField = field('Tables', tables);
  tablesField.hidden = true;
  const versions = h('select', {});
  const none = empty('No result yet.', `It ${WHEN_PUBLISHED}.`);
  const provisional = h('p', { class: 'provisional', hidden: true });
  const controls = h(
    'div',
    { class: 'bar' },
    field('Version', versions),
    field('Format', format),
    tablesField,
    button('Download', 'download', () => download().catch(showError)),
    button('Copy', 'copy', () => copy(text.textContent).then(() => notice('Copied'), showError)),
    info,
  );
  const element = h('div', {}, provisional, controls, text, none);
  let latest;
  let loaded;
  let due = 0;
  let whole;

  format.addEventListener('change', () => {
    tablesField.hidden = !WITH_TABLES.includes(format.value);
    load().catch(showError);
  });
  tables.addEventListener('change', () => load().catch(showError));
  versions.addEventListener('change', () => load().catch(showError));

  /** Before the first version, as soon as the text is read. */
  const isProvisional = () => (!model.job.result && model.job.pages ? true : undefined);

  /** A provisional result changes with every page that is settled. */
  const settled = () => [...model.pages.values()].filter(({ status }) => status === 'settled').length;

  const tableStyle = () => (WITH_TABLES.includes(format.value) ? tables.value : undefined);

  const fetchResult = () => {
    const wanted = { format: format.value, tables: tableStyle(), version: versions.value, provisional: isProvisional() };
    return request(`${path}/result${query(wanted)}`, { signal });
  };

  async function load() {
    const chosen = `${format.value} ${tableStyle()} ${versions.value}`;
    const wanted = isProvisional() ? `${chosen} ${settled()}` : chosen;
    if (wanted === loaded) return;
    if (isProvisional() && loaded?.startsWith(chosen) && Date.now() < due) return;
    loaded = wanted;
    due = Date.now() + MIN_RELOAD_INTERVAL;
    whole = await (await fetchResult()).blob();
    const content = format.value === 'pdf' ? 'Download the PDF to see it.' : await whole.slice(0, MAX_SHOWN_BYTES).text();
    if (wanted !== loaded) return;
    text.textContent = content;
    const cut = whole.size > MAX_SHOWN_BYTES ? `; the first ${bytes(MAX_SHOWN_BYTES)} are shown` : '';
    setText(info, `${bytes(whole.size)}${cut}`);
  }

  /** A plain link sends no API key, so the file is fetched first. */
  async function download() {
    await load();
    const url = URL.createObjectURL(whole);
    const name = model.job.document.name.replace(/\.(pdf|png|jpe?g|tiff?|webp)$/i, '');
    h('a', { href: url, download: `${name}.${versions.value ? `v${versions.value}` : 'provisional'}.${FORMATS[format.value][1]}` }).click();
    URL.revokeObjectURL(url);
  }

  function render() {
    const version = model.job.result?.version ?? 0;
    const isShown = version > 0 || Boolean(isProvisional());
    for (const part of [controls, text]) part.hidden = !isShown;
    none.hidden = isShown;
    provisional.hidden = !isProvisional();
    const next = isOpen(model.job) ? `The result ${WHEN_PUBLISHED}.` : 'The job has ended without a result.';
    setText(provisional, `Provisional: each page has the best text so far. ${next}`);
    if (version !== latest) {
      const published = Array.from({ length: version }, (_, at) =>
        h('option', { value: version - at }, at === 0 ? `${version} (latest)` : String(version - at)),
      );
      versions.replaceChildren(...(version ? published : [h('option', { value: '' }, 'Provisional')]));
      latest = version;
    }
    if (isShown) load().catch(showError);
  }

  return { element, render };
}
