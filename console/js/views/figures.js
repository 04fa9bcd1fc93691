// Throughput, times and cost over a stretch of time.

import { get, query } from '../api.js';
import { chart } from '../charts.js';
import { h } from '../dom.js';
import { count, duration, money, plural, price } from '../format.js';
import { every } from '../live.js';
import { trouble } from '../notices.js';
import { empty } from '../parts.js';

const WINDOWS = [
  ['1h', 'Hour', 12],
  ['24h', 'Day', 24],
  ['168h', 'Week', 28],
  ['720h', 'Month', 30],
];
const LOOK = 15_000;
const DAY = 24 * 3600_000;

export async function show(root, _, signal) {
  document.title = 'Figures · Everypage';
  let chosen = WINDOWS[1];
  const choose = h(
    'div',
    { class: 'segments', role: 'group', 'aria-label': 'How far back' },
    WINDOWS.map((entry) =>
      h(
        'button',
        {
          type: 'button',
          'aria-pressed': String(entry === chosen),
          onclick: (event) => {
            chosen = entry;
            for (const other of choose.children)
              other.setAttribute('aria-pressed', String(other === event.currentTarget));
            refresh().catch(trouble);
          },
        },
        entry[1],
      ),
    ),
  );
  const charts = h('div', { class: 'charts' });
  root.append(h('div', { class: 'head' }, h('h1', {}, 'Figures'), choose), charts);

  async function refresh() {
    const asked = chosen;
    const [window, , spans] = asked;
    const stats = await get(`/v1/stats${query({ window, spans })}`, signal);
    // An answer to what was asked before must not replace one to what is asked now.
    if (asked !== chosen) return;
    // A table that somebody reads stays open and where it is.
    if (charts.querySelector('details[open]') && charts.dataset.window === window) return;
    charts.dataset.window = window;
    render(charts, stats);
  }

  try {
    await refresh();
  } catch (error) {
    if (error.status !== 404) throw error;
    charts.replaceChildren(
      empty('This server has no figures.', 'Those of a stack on AWS are on its CloudWatch dashboard.'),
    );
    return;
  }
  every(LOOK, refresh, signal);
}

function render(charts, { spans, total, complete, span_ms: length }) {
  // As much as tells them apart: parts of a day, parts of several days, days.
  const clock = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
  const date = { day: 'numeric', month: 'short' };
  const looks = length * spans.length <= DAY ? clock : length < DAY ? { ...date, ...clock } : date;
  const name = new Intl.DateTimeFormat(undefined, looks);
  const labels = spans.map(({ from }) => name.format(new Date(from)));
  const of = (pick) => spans.map(pick);
  charts.replaceChildren(
    complete ? '' : h('p', { class: 'hint' }, 'There were more jobs than are counted here: the oldest are missing.'),
    chart({
      title: 'Pages',
      labels,
      format: count,
      isWhole: true,
      total: plural(total.pages, 'page'),
      series: [
        { name: 'Read by AI', tone: 'good', values: of((span) => span.ai_pages) },
        {
          name: "MuPDF's text, as planned",
          tone: 'soft',
          values: of((span) => Math.max(0, span.pages - span.ai_pages - span.fallback_pages)),
        },
        { name: 'Fell back', tone: 'warn', values: of((span) => span.fallback_pages) },
      ],
    }),
    chart({
      title: 'Jobs',
      labels,
      format: count,
      isWhole: true,
      total: plural(total.jobs, 'job'),
      series: [
        { name: 'Done', tone: 'good', values: of((span) => span.succeeded) },
        { name: 'Open', tone: 'soft', values: of((span) => span.jobs - span.succeeded - span.failed - span.stopped) },
        { name: 'Rejected or cancelled', tone: 'quiet', values: of((span) => span.stopped) },
        { name: 'Failed', tone: 'bad', values: of((span) => span.failed) },
      ],
    }),
    chart({
      title: 'Time to the result',
      kind: 'lines',
      labels,
      format: duration,
      total:
        total.p50_ms === undefined ? 'none ended' : `p50 ${duration(total.p50_ms)} · p95 ${duration(total.p95_ms)}`,
      series: [
        { name: 'Half of the jobs (p50)', tone: 'accent', values: of((span) => span.p50_ms) },
        { name: '95 % (p95)', tone: 'warn', values: of((span) => span.p95_ms) },
      ],
    }),
    chart({
      title: 'Cost',
      labels,
      format: money,
      axis: price,
      total: money(total.cost_micro_usd),
      series: [{ name: 'Models, by list prices', tone: 'accent', values: of((span) => span.cost_micro_usd) }],
    }),
  );
}
