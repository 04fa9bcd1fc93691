// Charts in plain SVG, each with its values in a table.

import { h, svg } from './dom.js';

const HEIGHT = 180;
const LEFT = 68;
const BOTTOM = 22;
const TOP = 10;

/** The next round number, for an axis with few steps; half of it is an integer where all values are. */
function ceiling(value, isWhole) {
  if (value <= 0) return isWhole ? 2 : 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return (isWhole ? [2, 4, 6, 10, 20] : [1, 2, 2.5, 5, 10]).map((step) => step * power).find((step) => step >= value);
}

/**
 * Draws `series` ([{ name, tone, values }]) as stacked bars or as lines. `labels` are those of the
 * x axis, `format` formats a value, and `axis` a value on the y axis.
 */
export function chart({ title, labels, series, format, kind = 'bars', total, axis = format, isWhole = false }) {
  const box = h('div', { class: 'chart' });
  const sums = labels.map((_, at) => series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0));
  const top = ceiling(
    Math.max(
      0,
      ...(kind === 'bars' ? sums : series.flatMap(({ values }) => values.filter((value) => value !== undefined))),
    ),
    isWhole,
  );

  function draw() {
    const width = box.clientWidth;
    if (!width) return;
    const inner = width - LEFT - 8;
    const step = inner / labels.length;
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
    const image = svg('svg', { width, height: HEIGHT, role: 'img', 'aria-label': `${title}: ${total}` });
    for (const part of [0, 0.5, 1]) {
      image.append(
        svg('line', { class: 'grid', x1: LEFT, x2: width - 8, y1: y(top * part), y2: y(top * part) }),
        svg('text', { class: 'axis end', x: LEFT - 8, y: y(top * part) + 4 }, axis(top * part)),
      );
    }
    const every = Math.ceil(labels.length / Math.max(2, Math.floor(inner / 90)));
    labels.forEach(
      (label, at) =>
        at % every === 0 && image.append(svg('text', { class: 'axis', x: LEFT + at * step, y: HEIGHT - 5 }, label)),
    );
    if (kind === 'bars') bars(image, step, y);
    else lines(image, step, y);
    labels.forEach((label, at) => {
      const tooltip = [
        label,
        ...series.map(({ name, values }) => `${name}: ${values[at] === undefined ? 'none' : format(values[at])}`),
      ].join('\n');
      image.append(
        svg(
          'rect',
          { class: 'hover', x: LEFT + at * step, y: TOP, width: step, height: HEIGHT - TOP - BOTTOM },
          svg('title', {}, tooltip),
        ),
      );
    });
    box.replaceChildren(image);
  }

  function bars(image, step, y) {
    labels.forEach((_, at) => {
      let below = 0;
      for (const { tone, values } of series) {
        const value = values[at] ?? 0;
        if (value > 0)
          image.append(
            svg('rect', {
              class: `bar ${tone}`,
              x: LEFT + at * step + step * 0.15,
              y: y(below + value),
              width: step * 0.7,
              height: Math.max(1, y(below) - y(below + value)),
            }),
          );
        below += value;
      }
    });
  }

  function lines(image, step, y) {
    for (const { tone, values } of series) {
      let path = '';
      values.forEach((value, at) => {
        if (value === undefined) return;
        const x = LEFT + (at + 0.5) * step;
        path += `${at > 0 && values[at - 1] !== undefined ? 'L' : 'M'}${x} ${y(value)}`;
        image.append(svg('circle', { class: `dot ${tone}`, cx: x, cy: y(value), r: 3 }));
      });
      image.append(svg('path', { class: `line ${tone}`, d: path }));
    }
  }

  new ResizeObserver(draw).observe(box);
  return h(
    'section',
    { class: 'card', 'aria-label': title },
    h('div', { class: 'chart-head' }, h('h2', {}, title), h('strong', { class: 'chart-total' }, total)),
    h(
      'ul',
      { class: 'legend' },
      series.map(({ name, tone }) =>
        h('li', {}, h('span', { class: `swatch series ${tone}`, 'aria-hidden': 'true' }), h('span', {}, name)),
      ),
    ),
    box,
    h(
      'details',
      {},
      h('summary', {}, 'Show as table'),
      h(
        'table',
        { class: 'rows' },
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            h('th', { scope: 'col' }, 'Start'),
            series.map(({ name }) => h('th', { scope: 'col', class: 'number' }, name)),
          ),
        ),
        h(
          'tbody',
          {},
          labels.map((label, at) =>
            h(
              'tr',
              {},
              h('th', { scope: 'row' }, label),
              series.map(({ values }) =>
                h('td', { class: 'number' }, values[at] === undefined ? '' : format(values[at])),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}
