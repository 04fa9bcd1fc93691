// Labels, symbols and colours for states, sources and results. Colour is never the only signal.

/** Falls back to the raw name: a newer server may return values that the table does not have. */
const withFallback = (table) =>
  new Proxy(table, {
    get: (known, name) => known[name] ?? { name: String(name), symbol: '?', tone: 'quiet', phrase: String(name) },
  });

/** Statuses of a job, in the order of the filter. */
export const STATUS = withFallback({
  awaiting_upload: { name: 'Waiting for upload', symbol: '↑', tone: 'quiet' },
  queued: { name: 'Queued', symbol: '◌', tone: 'quiet' },
  processing: { name: 'Processing', symbol: '◐', tone: 'busy' },
  awaiting_approval: { name: 'Waiting for approval', symbol: '?', tone: 'warn' },
  success: { name: 'Done', symbol: '✓', tone: 'good' },
  failed: { name: 'Failed', symbol: '✕', tone: 'bad' },
  cancelled: { name: 'Cancelled', symbol: '■', tone: 'quiet' },
  rejected: { name: 'Rejected', symbol: '⊘', tone: 'bad' },
});

const INCOMPLETE = { name: 'Done', symbol: '!', tone: 'warn' };

/** The label of a job's status. A successful job with pages that have no text gets a warning. */
export const statusOf = (job) =>
  job.status === 'success' && job.result?.metadata.missing_pages ? INCOMPLETE : STATUS[job.status];

export const isOpen = (job) => ['awaiting_upload', 'queued', 'processing', 'awaiting_approval'].includes(job.status);

/** Whether the job changes no more by itself. The audit of a published job follows a moment later. */
export const isOver = (job) =>
  ['AUDITED', 'CANCELLED', 'FAILED', 'REJECTED'].includes(job.state) || (!job.state && !isOpen(job));

/** States of a page, in the order of the legend. `phrase` continues "Page 7 …". */
export const PAGE = withFallback({
  planned: { name: 'Planned', symbol: '·', phrase: 'is not started yet' },
  waiting: { name: 'Waiting for a model', symbol: '↺', phrase: 'is waiting for a model' },
  working: { name: 'Processing', symbol: '…', phrase: 'is being processed' },
  ai: { name: 'Read by AI', symbol: 'A', phrase: 'was read by AI' },
  mupdf: { name: 'MuPDF text, as planned', symbol: 'T', phrase: 'has MuPDF text, as planned' },
  mupdf_fallback: { name: 'MuPDF fallback', symbol: '!', phrase: 'fell back to MuPDF text' },
  mupdf_timeout_fallback: {
    name: 'MuPDF fallback at the deadline',
    symbol: '◷',
    phrase: 'fell back to MuPDF text at the deadline',
  },
  ocr: { name: 'Read by OCR, as planned', symbol: 'O', phrase: 'was read by OCR, as planned' },
  ocr_fallback: { name: 'OCR fallback', symbol: '!', phrase: 'fell back to OCR' },
  ocr_timeout_fallback: {
    name: 'OCR fallback at the deadline',
    symbol: '◷',
    phrase: 'fell back to OCR at the deadline',
  },
  missing: { name: 'No text', symbol: '✕', phrase: 'has no text' },
});

/** Why a page waits for its next round of model calls. */
export const WAIT = withFallback({
  rate_limited: { name: 'rate limited' },
  breaker_open: { name: 'models in cooldown' },
  call_failed: { name: 'calls failed' },
  no_slot: { name: 'all slots taken' },
  quota_used_up: { name: 'rate limit used up' },
});

export function pageState(page) {
  if (page.status !== 'settled') return page.status;
  if (page.has_text === false && page.reason !== 'blank') return 'missing';
  return page.source;
}

/** Results of a model call. */
export const MODEL_CALL = withFallback({
  answered: { name: 'Answered', symbol: '✓', tone: 'good' },
  timeout: { name: 'Timed out', symbol: '◷', tone: 'warn' },
  transient: { name: 'Failed', symbol: '✕', tone: 'bad' },
  exhausted: { name: 'Quota exhausted', symbol: '%', tone: 'warn' },
  configuration: { name: 'Key or model rejected', symbol: '⚙', tone: 'bad' },
  request: { name: 'Request rejected', symbol: '⊘', tone: 'bad' },
  unknown: { name: 'Unknown error', symbol: '?', tone: 'bad' },
  refusal: { name: 'Refused by the model', symbol: '⊘', tone: 'warn' },
  empty: { name: 'Empty answer', symbol: '∅', tone: 'warn' },
  truncated: { name: 'Truncated', symbol: '…', tone: 'warn' },
  repeating: { name: 'Repetitive answer', symbol: '↻', tone: 'warn' },
  incomplete: { name: 'Incomplete answer', symbol: '◔', tone: 'warn' },
  invented: { name: 'Another text than the page', symbol: '≠', tone: 'warn' },
  breaker_open: { name: 'Skipped, breaker open', symbol: '↷', tone: 'quiet' },
  cut_off: { name: 'Cut off, no longer needed', symbol: '✂', tone: 'quiet' },
});

export const BREAKER = withFallback({
  closed: { name: 'Closed', symbol: '✓', tone: 'good' },
  open: { name: 'Open', symbol: '✕', tone: 'bad' },
  half_open: { name: 'Half-open', symbol: '◐', tone: 'warn' },
});

/** States of a purchase. `phrase` continues "500 credits: …". */
export const PURCHASE = withFallback({
  RUNNING: {
    name: 'Payment pending',
    symbol: '◐',
    tone: 'busy',
    phrase: 'payment pending; it continues in the background',
  },
  COMPLETED: { name: 'Completed', symbol: '✓', tone: 'good', phrase: 'added to the balance' },
  COMPENSATING: { name: 'Rolling back', symbol: '↶', tone: 'warn', phrase: 'purchase failed; rolling it back' },
  COMPENSATED: { name: 'Rolled back', symbol: '✕', tone: 'bad', phrase: 'purchase failed; no payment was kept' },
  MANUAL: { name: 'Needs attention', symbol: '?', tone: 'warn', phrase: 'not completed; an operator must resolve it' },
  RESOLVED: { name: 'Resolved manually', symbol: '■', tone: 'quiet', phrase: 'resolved by an operator' },
});

/** Whether the purchase continues by itself. */
export const isPending = (purchase) => ['RUNNING', 'COMPENSATING'].includes(purchase.state);

/** Steps of a purchase. */
export const STEP = withFallback({
  reserve: { name: 'Reserve capacity' },
  take_payment: { name: 'Take payment' },
  allocate: { name: 'Allocate credits' },
  enter: { name: 'Add to balance' },
});

export const STEP_STATE = withFallback({
  waiting: { name: 'not started', symbol: '·' },
  started: { name: 'started', symbol: '◐' },
  done: { name: 'done', symbol: '✓' },
  refused: { name: 'refused', symbol: '⊘' },
  unknown: { name: 'result unknown', symbol: '?' },
  undoing: { name: 'rolling back', symbol: '↶' },
  undone: { name: 'rolled back', symbol: '■' },
  stuck: { name: 'rollback failed', symbol: '✕' },
});

/** Kinds of blocks on a page. */
export const BLOCK = withFallback({
  heading: { name: 'Heading' },
  paragraph: { name: 'Paragraph' },
  list_item: { name: 'List item' },
  table: { name: 'Table' },
  code: { name: 'Code' },
  caption: { name: 'Caption' },
  footnote: { name: 'Footnote' },
  figure: { name: 'Figure' },
  page_header: { name: 'Running header, not in the text' },
  page_footer: { name: 'Running footer, not in the text' },
  page_number: { name: 'Page number, not in the text' },
  margin: { name: 'Margin, not in the text' },
});

/** What lowers the confidence of our own reading, by the names of the API. */
export const DOUBT = {
  scan: "the text comes from the scan's own text layer",
  picture: 'pictures cover part of the page',
  borderless_table: 'a table has no lines, its columns are known by their alignment only',
  broken_characters: 'some characters have no meaning in their font',
  equation: 'an equation could not be put into a line',
  table: 'the columns of a table could not be found',
  form: 'the labels and fields of a form could not be brought together',
};

/** Reasons for a page's classification. */
export const REASON = {
  text: 'plain text',
  blank: 'blank',
  image: 'contains an image',
  vector_figure: 'contains a vector figure',
  scanned: 'scanned',
  no_text_layer: 'no text layer',
  garbage_text: 'unusable text layer',
  equation: 'contains equations',
  table: 'contains a table that could not be rebuilt',
  form: 'contains a form that could not be rebuilt',
  unreadable: "can't be parsed",
};

const PROVIDER = withFallback({
  openai: { name: 'OpenAI' },
  anthropic: { name: 'Anthropic' },
  gemini: { name: 'Google Gemini' },
  azure: { name: 'Azure OpenAI' },
  mistral: { name: 'Mistral OCR' },
  bedrock: { name: 'Amazon Bedrock' },
});

export const providerName = (name) => PROVIDER[name].name;

/** Choices for forms, as [value, label]. */
export const providerChoices = (names = []) => names.map((name) => [name, providerName(name)]);

export const TIERS = [
  ['primary', 'Primary'],
  ['fast', 'Fast'],
  ['secondary', 'Secondary'],
];

export const AI_PAGES = [
  ['graphics', 'Pages with graphics'],
  ['unsure', 'Only pages with a low confidence'],
  ['all', 'All pages'],
];

export const COSTS = [
  ['standard', 'Standard'],
  ['low', 'Low: cheaper and slower, where there is time'],
];

export const PRIORITIES = [
  ['low', 'Low'],
  ['normal', 'Normal'],
  ['high', 'High'],
  ['critical', 'Critical'],
  ['urgent', 'Urgent'],
];
