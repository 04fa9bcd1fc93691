// A timeline of model calls: one row per page, one bar per call.

import { h, setText, svg } from '../dom.js';
import { count, duration, money, plural, timeOfDay } from '../format.js';
import { MODEL_CALL } from '../labels.js';
import { placeholder } from './placeholder.js';

const ROW = 20;
/** From this many pages on, rows are low, so that more of the run is visible. */
const LOW_ROWS_FROM = 24;
const LOW_ROW = 13;
const TOP = 40;
const LEFT = 56;
const RIGHT = 70;
const MAX_ROWS = 500;
const MAX_TABLE_ROWS = 2000;
/** Gaps without calls that are longer than this, and than this share of all busy time, are cut short. */
const MIN_GAP_MS = 1000;
const MIN_GAP_SHARE = 0.08;
const GAP_WIDTH = 24;
/** Limits of the busy periods that are drawn next to each other. */
const MAX_PERIODS = 8;
const MIN_PERIOD_WIDTH = 64;
/** Space that the label of a mark takes. */
const MARK_WIDTH = 62;

const MARKS = {
  'job.acked': 'accepted',
  'job.deadline_reached': 'deadline',
  'job.cancel_requested': 'cancelled',
  'job.executed': 'version 1',
  'job.healed': 'new version',
  'job.redriven': 'redriven',
};

function collect(events) {
  const rows = new Map();
  const marks = [];
  for (const { type, data, aggregate, timestamp } of events.values()) {
    if (MARKS[type])
      marks.push({
        at: Date.parse(timestamp),
        name: type === 'job.healed' ? `version ${data.result.version}` : MARKS[type],
      });
    const page = Number(aggregate.match(/\/page\/(\d+)$/)?.[1]);
    if (type !== 'page.settled' || !data.calls.length) continue;
    const list = rows.get(page) ?? rows.set(page, []).get(page);
    for (const call of data.calls) {
      const from = Date.parse(call.started_at);
      list.push({ ...call, page, from, to: from + call.latency_ms });
    }
  }
  return { rows: [...rows].sort(([a], [b]) => a - b), marks };
}

/** The periods with calls, as { from, to }; the gaps between them are cut short. */
export function busyPeriods(calls) {
  const sorted = [...calls].sort((a, b) => a.from - b.from);
  const busy = totalTime(merged(sorted, 0));
  let periods = merged(sorted, Math.max(MIN_GAP_MS, busy * MIN_GAP_SHARE));
  if (periods.length > MAX_PERIODS) {
    const gaps = periods.slice(1).map(({ from }, at) => from - periods[at].to);
    periods = merged(periods, gaps.sort((a, b) => b - a)[MAX_PERIODS - 1]);
  }
  return periods;
}

const totalTime = (periods) => periods.reduce((sum, { from, to }) => sum + to - from, 0);

/** Merges sorted periods whose gap is at most `maxGap`. */
function merged(sorted, maxGap) {
  const periods = [];
  for (const { from, to } of sorted) {
    const last = periods.at(-1);
    if (last && from - last.to <= maxGap) last.to = Math.max(last.to, to);
    else periods.push({ from, to });
  }
  return periods;
}

function scale(periods, width) {
  const available = width - GAP_WIDTH * (periods.length - 1);
  const min = Math.min(MIN_PERIOD_WIDTH, available / periods.length);
  // The width that remains after each period has its minimum is shared in proportion to their length.
  const busy = totalTime(periods) || 1;
  const shared = available - min * periods.length;
  let x = 0;
  const placed = periods.map(({ from, to }) => {
    const period = { from, to, x, width: min + ((to - from) / busy) * shared };
    x += period.width + GAP_WIDTH;
    return period;
  });
  const at = (time) => {
    const { from, to, x, width } = placed.findLast((period) => period.from <= time) ?? placed[0];
    return x + Math.min(1, Math.max(0, (time - from) / (to - from || 1))) * width;
  };
  return { at, placed };
}

const detailOf = (call) => (call.detail ? `: ${call.detail}` : '');

export function calls(model) {
  const chart = h('div', {});
  const legend = h('ul', { class: 'legend' });
  const body = h('tbody', {});
  const note = h('p', { class: 'hint' });
  const none = placeholder(model, 'No model calls yet.');
  const table = h(
    'details',
    {},
    h('summary', {}, 'Show as table'),
    h(
      'div',
      { class: 'card flush' },
      h(
        'table',
        { class: 'rows' },
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            ['Page', 'Started', 'Model', 'Result', 'Duration', 'Cost'].map((name) => h('th', { scope: 'col' }, name)),
          ),
        ),
        body,
      ),
    ),
  );
  const frame = h('div', { class: 'timeline card' }, chart);
  const element = h('div', { class: 'stacked' }, note, legend, frame, table, none.element);
  let drawn;
  // The chart has no width until its tab is visible, and the width may change.
  new ResizeObserver(() => chart.clientWidth && drawn?.width !== chart.clientWidth && render()).observe(chart);

  function render() {
    const { rows, marks } = collect(model.events);
    const isEmpty = none.render(rows.length === 0);
    for (const part of [note, legend, frame, table]) part.hidden = isEmpty;
    const all = rows.flatMap(([, list]) => list);
    const state = { width: chart.clientWidth, count: all.length, marks: marks.length };
    if (isEmpty || !state.width || JSON.stringify(state) === JSON.stringify(drawn)) return;
    drawn = state;
    const results = Object.keys(MODEL_CALL).filter((result) => all.some((call) => call.result === result));
    legend.replaceChildren(
      ...results.map((result) => {
        const { tone, symbol, name } = MODEL_CALL[result];
        return h(
          'li',
          {},
          h('span', { class: `swatch call ${tone}`, 'aria-hidden': 'true' }, symbol),
          h('span', {}, name),
          h('strong', {}, count(all.filter((call) => call.result === result).length)),
        );
      }),
    );
    const cut = rows.length > MAX_ROWS ? `; the first ${MAX_ROWS} pages are shown` : '';
    setText(note, `${plural(all.length, 'model call')} for ${plural(rows.length, 'page')}${cut}`);
    draw(rows.slice(0, MAX_ROWS), marks, state.width);
    body.replaceChildren(
      ...all
        .sort((a, b) => a.from - b.from)
        .slice(0, MAX_TABLE_ROWS)
        .map(tableRow),
    );
  }

  function tableRow(call) {
    const { symbol, name } = MODEL_CALL[call.result];
    const link = h('a', { href: `#/jobs/${model.job.id}/pages/${call.page}` }, String(call.page));
    return h(
      'tr',
      {},
      h('td', { class: 'number' }, link),
      h('td', { class: 'nowrap' }, timeOfDay(call.started_at, model.job.created_at)),
      h('td', {}, `${call.provider} ${call.model}`),
      h('td', {}, `${symbol} ${name}${detailOf(call)}`),
      h('td', { class: 'number' }, duration(call.latency_ms)),
      h('td', { class: 'number' }, money(call.cost_micro_usd)),
    );
  }

  function draw(rows, marks, width) {
    const { at, placed } = scale(busyPeriods(rows.flatMap(([, list]) => list)), width - LEFT - RIGHT);
    const row = rows.length > LOW_ROWS_FROM ? LOW_ROW : ROW;
    const height = TOP + rows.length * row + 8;
    const first = placed[0].from;
    const image = svg('svg', {
      width,
      height,
      role: 'img',
      'aria-label': `Model calls over time, ${plural(rows.length, 'page')}; also in the table below`,
    });
    for (const { from, to, x, width } of placed) {
      image.append(
        svg('rect', { class: 'busy-period', x: LEFT + x, y: TOP, width, height: rows.length * row }),
        svg('text', { class: 'axis', x: LEFT + x, y: 12 }, from === first ? '0 s' : `+${duration(from - first)}`),
      );
      if (width > 120)
        image.append(svg('text', { class: 'axis end', x: LEFT + x + width, y: 12 }, `+${duration(to - first)}`));
    }
    let free = width;
    for (const { at: time, name } of marks.sort((a, b) => b.at - a.at)) {
      const x = LEFT + at(time);
      image.append(svg('line', { class: 'mark', x1: x, x2: x, y1: TOP - 8, y2: height - 8 }, svg('title', {}, name)));
      // From the right: of two marks that are close, the later one gets its label.
      if (x + MARK_WIDTH > free) continue;
      image.append(svg('text', { class: 'axis', x, y: TOP - 12 }, name));
      free = x;
    }
    rows.forEach(([page, list], index) => {
      const y = TOP + index * row;
      const line = y + row / 2 + 4;
      image.append(svg('text', { class: 'axis page', x: 0, y: line }, `Page ${page}`));
      for (const call of list) {
        const { tone, symbol, name } = MODEL_CALL[call.result];
        const x = LEFT + at(call.from);
        const wide = Math.max(call.result === 'breaker_open' ? 5 : 3, at(call.to) - at(call.from));
        const took = `${name.toLowerCase()} in ${duration(call.latency_ms)}`;
        const tooltip = `Page ${page}: ${call.provider} ${call.model}, ${took}${detailOf(call)}`;
        image.append(
          svg(
            'g',
            { class: `call ${tone}` },
            svg('title', {}, tooltip),
            svg('rect', { x, y: y + row * 0.12, width: wide, height: row * 0.76, rx: 3 }),
            wide > 14 && svg('text', { x: x + 5, y: line - 0.5 }, wide > 130 ? `${symbol} ${call.model}` : symbol),
          ),
        );
      }
    });
    chart.replaceChildren(image);
  }

  return { element, render };
}
