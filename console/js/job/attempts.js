// A timeline of attempts: one row per page, one bar per call to a model.

import { h, setText, svg } from '../dom.js';
import { count, duration, money, plural, timeOfDay } from '../format.js';
import { ATTEMPT } from '../words.js';
import { absence } from './absence.js';

const ROW = 20;
/** From here on rows are low, so that more of a run is seen at once. */
const MANY = 24;
const LOW_ROW = 13;
const TOP = 40;
const LEFT = 56;
const RIGHT = 70;
const MOST_ROWS = 500;
/** Longer silences than this, or than this part of all busy time, are cut short: calls need the room. */
const LEAST_SILENCE = 1000;
const SILENCE = 0.08;
const CUT = 24;
/** So many stretches of time have room beside each other, and each has at least this width. */
const MOST_STRETCHES = 8;
const LEAST_WIDTH = 64;
/** Room that the name of a mark takes. */
const NAME = 62;

const MARKS = {
  'job.acked': 'accepted',
  'job.deadline_reached': 'deadline',
  'job.cancel_requested': 'cancelled',
  'job.executed': 'version 1',
  'job.healed': 'new version',
  'job.redriven': 'started again',
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
    if (type !== 'page.settled' || !data.attempts.length) continue;
    const list = rows.get(page) ?? rows.set(page, []).get(page);
    for (const attempt of data.attempts) {
      const from = Date.parse(attempt.started_at);
      list.push({ ...attempt, page, from, to: from + attempt.latency_ms });
    }
  }
  return { rows: [...rows].sort(([a], [b]) => a - b), marks };
}

/** Busy stretches of time; what lies between them is cut short. */
export function stretches(spans) {
  const sorted = [...spans].sort((a, b) => a.from - b.from);
  const busy = total(joined(sorted, 0));
  let parts = joined(sorted, Math.max(LEAST_SILENCE, busy * SILENCE));
  if (parts.length > MOST_STRETCHES) {
    const silences = parts.slice(1).map(({ from }, at) => from - parts[at].to);
    parts = joined(parts, silences.sort((a, b) => b - a)[MOST_STRETCHES - 1]);
  }
  return parts;
}

const total = (parts) => parts.reduce((sum, { from, to }) => sum + to - from, 0);

/** Spans in their order, as one where no more than `silence` is between them. */
function joined(spans, silence) {
  const parts = [];
  for (const { from, to } of spans) {
    const last = parts.at(-1);
    if (last && from - last.to <= silence) last.to = Math.max(last.to, to);
    else parts.push({ from, to });
  }
  return parts;
}

function scale(parts, width) {
  const room = width - CUT * (parts.length - 1);
  const least = Math.min(LEAST_WIDTH, room / parts.length);
  // What is left after each has its least is shared by how long they are.
  const busy = total(parts) || 1;
  const shared = room - least * parts.length;
  let x = 0;
  const placed = parts.map(({ from, to }) => {
    const part = { from, to, x, width: least + ((to - from) / busy) * shared };
    x += part.width + CUT;
    return part;
  });
  const at = (time) => {
    const part = placed.findLast(({ from }) => from <= time) ?? placed[0];
    return part.x + Math.min(1, Math.max(0, (time - part.from) / (part.to - part.from || 1))) * part.width;
  };
  return { at, placed };
}

export function attempts(model) {
  const chart = h('div', {});
  const legend = h('ul', { class: 'legend' });
  const body = h('tbody', {});
  const note = h('p', { class: 'hint' });
  const none = absence(model, 'No model was asked yet.');
  const table = h(
    'details',
    {},
    h('summary', {}, 'As a table'),
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
            ['Page', 'Started', 'Model', 'Result', 'Took', 'Cost'].map((name) => h('th', { scope: 'col' }, name)),
          ),
        ),
        body,
      ),
    ),
  );
  const frame = h('div', { class: 'timeline card' }, chart);
  const element = h('div', { class: 'stacked' }, note, legend, frame, table, none.element);
  let drawn;
  // Its width is known only once it is shown, and may change.
  new ResizeObserver(() => chart.clientWidth && drawn?.width !== chart.clientWidth && render()).observe(chart);

  function render() {
    const { rows, marks } = collect(model.events);
    const isAbsent = none.render(rows.length === 0);
    for (const part of [note, legend, frame, table]) part.hidden = isAbsent;
    const every = rows.flatMap(([, list]) => list);
    const state = { width: chart.clientWidth, count: every.length, marks: marks.length };
    if (isAbsent || !state.width || JSON.stringify(state) === JSON.stringify(drawn)) return;
    drawn = state;
    const results = Object.keys(ATTEMPT).filter((result) => every.some((attempt) => attempt.result === result));
    legend.replaceChildren(
      ...results.map((result) =>
        h(
          'li',
          {},
          h('span', { class: `swatch call ${ATTEMPT[result].tone}`, 'aria-hidden': 'true' }, ATTEMPT[result].sign),
          h('span', {}, ATTEMPT[result].name),
          h('strong', {}, count(every.filter((attempt) => attempt.result === result).length)),
        ),
      ),
    );
    setText(
      note,
      `${plural(every.length, 'attempt')} for ${plural(rows.length, 'page')}${rows.length > MOST_ROWS ? `; the first ${MOST_ROWS} pages are shown` : ''}`,
    );
    draw(rows.slice(0, MOST_ROWS), marks, state.width);
    body.replaceChildren(
      ...every
        .sort((a, b) => a.from - b.from)
        .slice(0, 2000)
        .map((attempt) =>
          h(
            'tr',
            {},
            h(
              'td',
              { class: 'number' },
              h('a', { href: `#/jobs/${model.job.id}/pages/${attempt.page}` }, String(attempt.page)),
            ),
            h('td', { class: 'nowrap' }, timeOfDay(attempt.started_at, model.job.created_at)),
            h('td', {}, `${attempt.provider} ${attempt.model}`),
            h(
              'td',
              {},
              `${ATTEMPT[attempt.result].sign} ${ATTEMPT[attempt.result].name}${attempt.detail ? `: ${attempt.detail}` : ''}`,
            ),
            h('td', { class: 'number' }, duration(attempt.latency_ms)),
            h('td', { class: 'number' }, money(attempt.cost_micro_usd)),
          ),
        ),
    );
  }

  function draw(rows, marks, width) {
    const spans = rows.flatMap(([, list]) => list);
    const { at, placed } = scale(stretches(spans), width - LEFT - RIGHT);
    const row = rows.length > MANY ? LOW_ROW : ROW;
    const height = TOP + rows.length * row + 8;
    const first = placed[0].from;
    const picture = svg('svg', {
      width,
      height,
      role: 'img',
      'aria-label': `Attempts over time, ${plural(rows.length, 'page')}; the table below has the same`,
    });
    for (const part of placed) {
      picture.append(
        svg('rect', { class: 'stretch', x: LEFT + part.x, y: TOP, width: part.width, height: rows.length * row }),
        svg(
          'text',
          { class: 'axis', x: LEFT + part.x, y: 12 },
          part.from === first ? '0 s' : `+${duration(part.from - first)}`,
        ),
      );
      if (part.width > 120)
        picture.append(
          svg('text', { class: 'axis end', x: LEFT + part.x + part.width, y: 12 }, `+${duration(part.to - first)}`),
        );
    }
    let free = width;
    for (const { at: time, name } of marks.sort((a, b) => b.at - a.at)) {
      const x = LEFT + at(time);
      picture.append(svg('line', { class: 'mark', x1: x, x2: x, y1: TOP - 8, y2: height - 8 }, svg('title', {}, name)));
      // From the right, so that of two that are close the later is named.
      if (x + NAME > free) continue;
      picture.append(svg('text', { class: 'axis', x, y: TOP - 12 }, name));
      free = x;
    }
    rows.forEach(([page, list], index) => {
      const y = TOP + index * row;
      const line = y + row / 2 + 4;
      picture.append(svg('text', { class: 'axis page', x: 0, y: line }, `Page ${page}`));
      for (const attempt of list) {
        const { tone, sign, name } = ATTEMPT[attempt.result];
        const x = LEFT + at(attempt.from);
        const wide = Math.max(attempt.result === 'breaker_open' ? 5 : 3, at(attempt.to) - at(attempt.from));
        picture.append(
          svg(
            'g',
            { class: `call ${tone}` },
            svg(
              'title',
              {},
              `Page ${page}: ${attempt.provider} ${attempt.model}, ${name.toLowerCase()} in ${duration(attempt.latency_ms)}${attempt.detail ? `: ${attempt.detail}` : ''}`,
            ),
            svg('rect', { x, y: y + row * 0.12, width: wide, height: row * 0.76, rx: 3 }),
            wide > 14 && svg('text', { x: x + 5, y: line - 0.5 }, wide > 130 ? `${sign} ${attempt.model}` : sign),
          ),
        );
      }
    });
    chart.replaceChildren(picture);
  }

  return { element, render };
}
