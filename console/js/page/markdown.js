// Markdown as elements. What a document or a model wrote is never parsed as HTML: every piece of it becomes a text
// node, in an element that this file chose. Links and images are shown by their text, so nothing is fetched.

import { h } from '../dom.js';

/** Longer texts are shown as they are: a page has some thousand characters. */
const MAX_LENGTH = 200_000;
const MAX_DEPTH = 6;

/** Emphasis, code, links, images, a few tags, line breaks. Every alternative is linear in the length of the text. */
const INLINE = new RegExp(
  [
    '`([^`\\n]{1,500})`', // 1 code
    '\\*\\*([^*\\n]{1,2000})\\*\\*', // 2 bold
    '__([^_\\n]{1,2000})__', // 3 bold
    '~~([^~\\n]{1,2000})~~', // 4 struck
    '\\*([^*\\s][^*\\n]{0,2000})\\*', // 5 italic
    '!\\[([^\\]\\n]{0,500})\\]\\([^)\\n]{0,2000}\\)', // 6 image
    '\\[([^\\]\\n]{1,500})\\]\\(([^)\\n]{0,2000})\\)', // 7 link, 8 its address
    '<(sup|sub|b|strong|i|em|u|s|del|mark)>([^<\\n]{0,2000})</(?:sup|sub|b|strong|i|em|u|s|del|mark)>', // 9 tag, 10 its text
    '<br ?/?>|  \\n', // a line break
    '<!--[^]{0,2000}?-->', // a comment
    '\\\\([\\\\`*_{}\\[\\]()#+\\-.!|<>~])', // 11 an escaped character
  ].join('|'),
  'g',
);

const TAGS = { b: 'strong', strong: 'strong', i: 'em', em: 'em', s: 'del', del: 'del', u: 'u', sup: 'sup', sub: 'sub', mark: 'mark' };

/** The text of a line with its emphasis, as nodes. */
export function inline(text, depth = 0) {
  if (depth > MAX_DEPTH) return [text];
  const out = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    out.push(text.slice(at, match.index));
    at = match.index + match[0].length;
    const [whole, code, bold, bold2, struck, italic, image, link, address, tag, tagged, escaped] = match;
    const nested = (value) => inline(value, depth + 1);
    if (code !== undefined) out.push(h('code', {}, code));
    else if (bold !== undefined || bold2 !== undefined) out.push(h('strong', {}, nested(bold ?? bold2)));
    else if (struck !== undefined) out.push(h('del', {}, nested(struck)));
    else if (italic !== undefined) out.push(h('em', {}, nested(italic)));
    else if (image !== undefined) out.push(h('span', { class: 'picture' }, `Image: ${image || 'no description'}`));
    else if (link !== undefined) out.push(h('span', { class: 'link', title: address }, nested(link)));
    else if (tag !== undefined) out.push(h(TAGS[tag], {}, nested(tagged)));
    else if (escaped !== undefined) out.push(escaped);
    else if (!whole.startsWith('<!--')) out.push(h('br'));
  }
  out.push(text.slice(at));
  return out.filter((part) => part !== '');
}

const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', nbsp: ' ', '#39': "'" };
const decoded = (text) => text.replace(/&(amp|lt|gt|quot|nbsp|#39);/g, (_, name) => ENTITIES[name]);

/** A table of rows of cells: { nodes, isHead, columns, rows }. */
export const table = (rows) =>
  h(
    'div',
    { class: 'table-scroll' },
    h(
      'table',
      {},
      h(
        'tbody',
        {},
        rows.map((cells) =>
          h(
            'tr',
            {},
            cells.map(({ nodes, isHead, columns = 1, rows: high = 1 }) =>
              h(
                isHead ? 'th' : 'td',
                { colspan: columns > 1 && columns, rowspan: high > 1 && high },
                nodes,
              ),
            ),
          ),
        ),
      ),
    ),
  );

const span = (attributes, name) => Math.min(Number(new RegExp(`${name}\\s*=\\s*"?(\\d{1,3})`, 'i').exec(attributes)?.[1] ?? 1), 100);

/** An HTML table as models write them: its rows and cells, and their text. */
function htmlTable(text) {
  const rows = text.split(/<tr[^>]{0,500}>/i).slice(1);
  return table(
    rows.map((row) =>
      [...row.matchAll(/<(td|th)([^>]{0,500})>([^]*?)(?=<\/?t[dhr][\s>]|<\/t|$)/gi)].map(([, name, attributes, content]) => ({
        nodes: inline(decoded(content.replace(/<(?!\/?(?:sup|sub|b|strong|i|em|u|s|del|br)\b)[^>]{0,500}>/gi, ' ').trim())),
        isHead: name.toLowerCase() === 'th',
        columns: span(attributes, 'colspan'),
        rows: span(attributes, 'rowspan'),
      })),
    ),
  );
}

const isRule = (line) => /^\s*\|?\s*:?-{1,}:?\s*(\|\s*:?-{1,}:?\s*)*\|?\s*$/.test(line) && line.includes('-');

const cellsOf = (line) =>
  line
    .trim()
    .replace(/^\||\|$/g, '')
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim());

const ITEM = /^(\s*)(?:[-*+]|(\d{1,9})[.)])\s+(?:\[( |x|X)\]\s+)?(.*)$/;

/** The elements of a Markdown text. */
export function markdown(text) {
  if (text.length > MAX_LENGTH) return [h('pre', {}, text)];
  const lines = text.replace(/\r\n?/g, '\n').split('\n');
  const out = [];
  let at = 0;
  const until = (isEnd) => {
    const from = at;
    while (at < lines.length && !isEnd(lines[at])) at += 1;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at];
    const fence = /^\s*(```+|~~~+)/.exec(line);
    const heading = /^(#{1,6})\s+(.*?)\s*#*\s*$/.exec(line);
    if (!line.trim()) {
      at += 1;
    } else if (fence) {
      at += 1;
      out.push(h('pre', {}, until((next) => next.trim().startsWith(fence[1])).join('\n')));
      at += 1;
    } else if (/^\s*<!--/.test(line)) {
      until((next) => next.includes('-->'));
      at += 1;
    } else if (heading) {
      at += 1;
      out.push(h('p', { class: `heading level-${heading[1].length}` }, inline(heading[2])));
    } else if (/^\s*<table[\s>]/i.test(line)) {
      const rows = until((next) => /<\/table>/i.test(next));
      rows.push(lines[at] ?? '');
      at += 1;
      out.push(htmlTable(rows.join('\n')));
    } else if (line.includes('|') && isRule(lines[at + 1] ?? '') && lines[at + 1].includes('|')) {
      const head = cellsOf(line).map((cell) => ({ nodes: inline(cell), isHead: true }));
      at += 2;
      const rows = until((next) => !next.includes('|'));
      const body = rows.map((row) => cellsOf(row).map((cell) => ({ nodes: inline(cell.replaceAll('\\|', '|')) })));
      out.push(table([head, ...body]));
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      at += 1;
      out.push(h('hr'));
    } else if (/^\s*>/.test(line)) {
      const quoted = until((next) => !/^\s*>/.test(next)).map((next) => next.replace(/^\s*>\s?/, ''));
      out.push(h('blockquote', {}, inline(quoted.join('\n'))));
    } else if (ITEM.test(line)) {
      const [, indent, number, mark, content] = ITEM.exec(line);
      at += 1;
      const more = until((next) => !next.trim() || ITEM.test(next) || !/^\s{2,}/.test(next));
      out.push(item([content, ...more.map((next) => next.trim())].join(' '), Math.floor(indent.length / 2), number, mark));
    } else {
      const isEnd = (next) => !next.trim() || /^(#{1,6}\s|\s*(```|~~~|>|<table[\s>]))/i.test(next) || ITEM.test(next);
      const first = at;
      at += 1;
      until(isEnd);
      out.push(h('p', {}, inline(lines.slice(first, at).join('\n'))));
    }
  }
  return out;
}

/** An item of a list with its mark: a bullet, its number, or a box. */
export function item(text, depth, number, mark) {
  const symbol = mark === undefined ? (number ? `${number}.` : '•') : mark === ' ' ? '☐' : '☒';
  const element = h('p', { class: 'item' }, h('span', { class: 'mark' }, symbol), h('span', {}, inline(text)));
  element.style.setProperty('--depth', Math.min(depth, 8));
  return element;
}
