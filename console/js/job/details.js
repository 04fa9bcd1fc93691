// All other data of a job.

import { fact, facts } from '../components.js';
import { h } from '../dom.js';
import { bytes, count, exactTime, money } from '../format.js';

export function details(model) {
  const element = h('div', {});
  let shown;

  function render() {
    const { job } = model;
    const now = JSON.stringify(job);
    if (now === shown) return;
    shown = now;
    const at = (value) => (value ? exactTime(value) : 'not yet');
    const metadata = job.result?.metadata;
    element.replaceChildren(
      h(
        'div',
        { class: 'columns' },
        group(
          'Job',
          fact('ID', h('code', {}, job.id)),
          fact('State', job.state ?? 'waiting for upload'),
          fact('User', job.user ?? 'unknown'),
          fact('Source', job.source),
          fact('Redrives', count(job.redrives)),
          fact('Correlation ID', h('code', {}, job.correlation_id ?? '')),
          fact('Trace ID', h('code', {}, job.trace_id ?? '')),
        ),
        group(
          'Document',
          fact('Name', job.document.name),
          fact('Size', bytes(job.document.bytes)),
          fact('SHA-256', h('code', { class: 'long' }, job.document.sha256 ?? '')),
        ),
        group(
          'Times',
          fact('Created', at(job.created_at)),
          fact('Accepted', at(job.started_at)),
          fact('Deadline', at(job.deadline)),
          fact('Finished', at(job.finished_at)),
        ),
        group('Options', ...Object.entries(job.options).map(([name, value]) => fact(words(name), value))),
        job.pages &&
          group(
            'Pages',
            ...Object.entries(job.pages).map(([name, value]) => fact(words(name), count(value))),
          ),
        job.plan &&
          group(
            `Plan ${job.plan.version}`,
            fact('Pages for AI', count(job.plan.ai_pages)),
            fact('Pages with an image', count(job.plan.image_pages)),
            fact('Estimated cost', money(job.plan.estimated_cost_micro_usd)),
            fact('Estimated credits', count(job.plan.estimated_credits)),
            job.plan.no_ai_reason && fact('Reason for no AI', job.plan.no_ai_reason),
          ),
        metadata &&
          group(
            `Result, version ${job.result.version}`,
            fact('Read by AI', count(metadata.final_ai_pages)),
            fact('MuPDF text', count(metadata.final_mupdf_pages)),
            fact('Read by OCR', count(metadata.final_ocr_pages ?? 0)),
            fact('Deadline fallbacks', count(metadata.final_timeout_fallback_pages)),
            fact('Pages without text', metadata.missing_page_numbers.join(', ') || 'none'),
            fact('Characters', count(metadata.result_text_len)),
            fact('Input tokens', count(metadata.input_tokens)),
            fact('Output tokens', count(metadata.output_tokens)),
            fact('Cost', money(metadata.cost_micro_usd)),
            fact('Credits', count(metadata.credits)),
            fact('SHA-256', h('code', { class: 'long' }, job.result.sha256)),
          ),
      ),
    );
  }

  return { element, render };
}

/** A name of the API as words. */
const words = (name) => name.replaceAll('_', ' ');

const group = (name, ...list) => h('section', { class: 'card' }, h('h2', {}, name), facts(...list));
