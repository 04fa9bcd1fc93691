// Statistics: throughput, duration and cost over a time range.

import { get, query } from '../api.js';
import { chart } from '../charts.js';
import { empty } from '../components.js';
import { h } from '../dom.js';
import { count, duration, money, plural, price } from '../format.js';
import { every } from '../live.js';
import { showError } from '../notices.js';

/** Window, label and number of buckets. */
const RANGES = [
  ['1h', 'Hour', 12],
  ['24h', 'Day', 24],
  ['168h', 'Week', 28],
  ['720h', 'Month', 30],
];
const POLL_INTERVAL = 15_000;
const DAY = 24 * 3600_000;

export async function show(root, _, signal) {
  document.title = 'Statistics · Everypage';
  let selected = RANGES[1];
  const choose = h(
    'div',
    { class: 'segments', role: 'group', 'aria-label': 'Time range' },
    RANGES.map((range) =>
      h(
        'button',
        {
          type: 'button',
          'aria-pressed': String(range === selected),
          onclick: (event) => {
            selected = range;
            for (const other of choose.children)
              other.setAttribute('aria-pressed', String(other === event.currentTarget));
            refresh().catch(showError);
          },
        },
        range[1],
      ),
    ),
  );
  const charts = h('div', { class: 'charts' });
  root.append(h('div', { class: 'head' }, h('h1', {}, 'Statistics'), choose), charts);

  async function refresh() {
    const requested = selected;
    const [window, , buckets] = requested;
    const stats = await get(`/v1/stats${query({ window, buckets })}`, signal);
    // A late response must not replace that of a newer request.
    if (requested !== selected) return;
    // An open table is not replaced while the user reads it.
    if (charts.querySelector('details[open]') && charts.dataset.window === window) return;
    charts.dataset.window = window;
    render(charts, stats);
  }

  try {
    await refresh();
  } catch (error) {
    if (error.status !== 404) throw error;
    charts.replaceChildren(
      empty('This server has no statistics.', 'A stack on AWS has a CloudWatch dashboard instead.'),
    );
    return;
  }
  every(POLL_INTERVAL, refresh, signal);
}

function render(charts, { buckets, total, complete, bucket_ms: length }) {
  // Labels that are unique: time of day, date and time, or date.
  const clock = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
  const date = { day: 'numeric', month: 'short' };
  const format = length * buckets.length <= DAY ? clock : length < DAY ? { ...date, ...clock } : date;
  const label = new Intl.DateTimeFormat(undefined, format);
  const labels = buckets.map(({ from }) => label.format(new Date(from)));
  const of = (pick) => buckets.map(pick);
  charts.replaceChildren(
    complete ? '' : h('p', { class: 'hint' }, 'Too many jobs in this range: the oldest are not included.'),
    chart({
      title: 'Pages',
      labels,
      format: count,
      isWhole: true,
      total: plural(total.pages, 'page'),
      series: [
        { name: 'Read by AI', tone: 'good', values: of((bucket) => bucket.ai_pages) },
        {
          name: 'MuPDF text, as planned',
          tone: 'soft',
          values: of((bucket) => Math.max(0, bucket.pages - bucket.ai_pages - bucket.fallback_pages)),
        },
        { name: 'Fallback', tone: 'warn', values: of((bucket) => bucket.fallback_pages) },
      ],
    }),
    chart({
      title: 'Jobs',
      labels,
      format: count,
      isWhole: true,
      total: plural(total.jobs, 'job'),
      series: [
        { name: 'Done', tone: 'good', values: of((bucket) => bucket.succeeded) },
        {
          name: 'Open',
          tone: 'soft',
          values: of(({ jobs, succeeded, failed, stopped }) => jobs - succeeded - failed - stopped),
        },
        { name: 'Rejected or cancelled', tone: 'quiet', values: of((bucket) => bucket.stopped) },
        { name: 'Failed', tone: 'bad', values: of((bucket) => bucket.failed) },
      ],
    }),
    chart({
      title: 'Time to result',
      kind: 'lines',
      labels,
      format: duration,
      total:
        total.p50_ms === undefined
          ? 'no finished jobs'
          : `p50 ${duration(total.p50_ms)} · p95 ${duration(total.p95_ms)}`,
      series: [
        { name: 'Median (p50)', tone: 'accent', values: of((bucket) => bucket.p50_ms) },
        { name: '95th percentile (p95)', tone: 'warn', values: of((bucket) => bucket.p95_ms) },
      ],
    }),
    chart({
      title: 'Cost',
      labels,
      format: money,
      axis: price,
      total: money(total.cost_micro_usd),
      series: [{ name: 'Model calls, at list prices', tone: 'accent', values: of((bucket) => bucket.cost_micro_usd) }],
    }),
  );
}
