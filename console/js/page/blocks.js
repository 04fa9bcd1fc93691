// The blocks that our own reading found on a page: as a document, and as outlines on its image.

import { h, svg } from '../dom.js';
import { BLOCK } from '../labels.js';
import { item, table } from './markdown.js';

const isFurniture = (block) => ['page_header', 'page_footer', 'page_number', 'margin'].includes(block.kind);

const lines = (text = '') => text.split('\n').flatMap((line, index) => (index ? [h('br'), line] : [line]));

/** Cells that a span covers are empty and not drawn. */
function rowsOf({ rows, header_rows: heads = 0 }) {
  const covered = new Set();
  return rows.map((cells, row) =>
    cells.flatMap((cell, column) => {
      if (covered.has(`${row} ${column}`)) return [];
      const { columns = 1, rows: high = 1 } = cell;
      for (let down = 0; down < high; down += 1) {
        for (let right = 0; right < columns; right += 1) covered.add(`${row + down} ${column + right}`);
      }
      return [{ nodes: lines(cell.text), isHead: row < heads, columns, rows: high }];
    }),
  );
}

const BULLET = /^([^\p{L}\p{N}([~"“])\s*(.*)$/su;
const NUMBER = /^(\(?[\p{L}\p{N}]{1,4}[.)])\s+(.*)$/su;

function listItem(block) {
  const depth = (block.level ?? 1) - 1;
  const bullet = BULLET.exec(block.text);
  if (bullet) {
    const mark = { '☐': ' ', '☒': 'x', '☑': 'x' }[bullet[1]];
    return item(bullet[2], depth, undefined, mark);
  }
  const number = NUMBER.exec(block.text);
  return number ? item(number[2], depth, number[1].replace(/\.$/, '')) : item(block.text, depth);
}

function elementOf(block) {
  if (block.table) return table(rowsOf(block.table));
  switch (block.kind) {
    case 'heading':
      return h('p', { class: `heading level-${Math.min(block.level ?? 2, 6)}` }, lines(block.text));
    case 'list_item':
      return listItem(block);
    case 'code':
      return h('pre', {}, block.text);
    case 'figure':
      return h('p', { class: 'figure' }, h('span', { class: 'picture' }, 'Figure'), ' ', lines(block.text));
    default:
      return h('p', { class: block.kind }, lines(block.text));
  }
}

/**
 * Draws the blocks twice: `document(blocks)` gives the elements of the text, `outlines(blocks, box)` an overlay for the
 * page's image. Pointing at one marks the other.
 */
export function linkedBlocks() {
  let texts = new Map();
  let shapes = new Map();
  let marked;

  function mark(index, isFromImage) {
    if (marked === index) return;
    for (const known of [texts, shapes]) known.get(marked)?.classList.remove('marked');
    marked = index;
    for (const known of [texts, shapes]) known.get(marked)?.classList.add('marked');
    if (isFromImage) texts.get(marked)?.scrollIntoView({ block: 'nearest' });
  }

  const linked = (element, index, isFromImage) => {
    element.dataset.block = index;
    element.addEventListener('pointerenter', () => mark(index, isFromImage));
    element.addEventListener('pointerleave', () => mark(undefined));
    return element;
  };

  function document(blocks) {
    texts = new Map(
      blocks.flatMap((block, index) => (isFurniture(block) ? [] : [[index, linked(elementOf(block), index, false)]])),
    );
    return [...texts.values()];
  }

  function outlines(blocks, [left, top, right, bottom]) {
    shapes = new Map(
      blocks.map((block, index) => {
        const [x, y, x1, y1] = block.box;
        const label = block.kind === 'heading' && block.level ? `Heading ${block.level}` : BLOCK[block.kind].name;
        const shape = svg(
          'rect',
          { x: x - 1, y: y - 1, width: Math.max(x1 - x, 2) + 2, height: Math.max(y1 - y, 2) + 2, class: `block ${block.kind}` },
          svg('title', {}, label),
        );
        return [index, linked(shape, index, true)];
      }),
    );
    const viewBox = `${left} ${top} ${right - left} ${bottom - top}`;
    return svg(
      'svg',
      { class: 'outlines', viewBox, preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      // Large blocks first, so that small ones on them can be pointed at.
      [...shapes.values()].sort((a, b) => area(b) - area(a)),
    );
  }

  return { document, outlines };
}

const area = (shape) => shape.getAttribute('width') * shape.getAttribute('height');
