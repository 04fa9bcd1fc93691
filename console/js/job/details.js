// Everything else that is known of a job.

import { h } from '../dom.js';
import { bytes, count, exactTime, money } from '../format.js';
import { fact, facts } from '../parts.js';

export function details(model) {
  const element = h('div', {});
  let shown;

  function render() {
    const { job } = model;
    const now = JSON.stringify(job);
    if (now === shown) return;
    shown = now;
    const at = (value) => (value ? exactTime(value) : 'not yet');
    const figures = job.result?.metadata;
    element.replaceChildren(
      h(
        'div',
        { class: 'columns' },
        group(
          'Job',
          fact('Id', h('code', {}, job.id)),
          fact('State', job.state ?? 'awaiting upload'),
          fact('User', job.user ?? 'unknown'),
          fact('Came through', job.source),
          fact('Started again', count(job.redrives)),
          fact('Correlation id', h('code', {}, job.correlation_id ?? '')),
          fact('Trace id', h('code', {}, job.trace_id ?? '')),
        ),
        group(
          'Document',
          fact('Name', job.document.name),
          fact('Size', bytes(job.document.bytes)),
          fact('SHA-256', h('code', { class: 'long' }, job.document.sha256 ?? '')),
        ),
        group(
          'Times',
          fact('Came in', at(job.created_at)),
          fact('Accepted', at(job.started_at)),
          fact('Deadline', at(job.deadline)),
          fact('Ended', at(job.finished_at)),
        ),
        group('Asked for', ...Object.entries(job.options).map(([name, value]) => fact(name.replace('_', ' '), value))),
        job.pages &&
          group(
            'Pages',
            ...Object.entries(job.pages).map(([name, value]) => fact(name.replace('_', ' '), count(value))),
          ),
        job.plan &&
          group(
            `Plan ${job.plan.version}`,
            fact('Pages for AI', count(job.plan.ai_pages)),
            fact('With an image', count(job.plan.image_pages)),
            fact('Estimated cost', money(job.plan.estimated_cost_micro_usd)),
            fact('Estimated credits', count(job.plan.estimated_credits)),
            job.plan.no_ai_because && fact('No page for AI', job.plan.no_ai_because),
          ),
        figures &&
          group(
            `Result, version ${job.result.version}`,
            fact('Read by AI', count(figures.final_ai_pages)),
            fact("MuPDF's text", count(figures.final_mupdf_pages)),
            fact('Out of time', count(figures.final_timeout_fallback_pages)),
            fact('Without text', figures.missing_pages.join(', ') || 'none'),
            fact('Characters', count(figures.result_text_len)),
            fact('Tokens in, out', `${count(figures.input_tokens)}, ${count(figures.output_tokens)}`),
            fact('Cost', money(figures.cost_micro_usd)),
            fact('Credits', count(figures.credits)),
            fact('SHA-256', h('code', { class: 'long' }, job.result.sha256)),
          ),
      ),
    );
  }

  return { element, render };
}

const group = (name, ...list) => h('section', { class: 'card' }, h('h2', {}, name), facts(...list));
