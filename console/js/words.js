// What states, sources and results are called, with a sign for each: colour is never the only one.

/** A newer server may have names that are not known here: those are shown as they are. */
const open = (table) =>
  new Proxy(table, {
    get: (known, name) => known[name] ?? { name: String(name), sign: '?', tone: 'quiet', says: String(name) },
  });

export const STATUS = open({
  awaiting_upload: { name: 'Awaiting upload', sign: '↑', tone: 'quiet' },
  queued: { name: 'Queued', sign: '◌', tone: 'quiet' },
  processing: { name: 'Processing', sign: '◐', tone: 'busy' },
  awaiting_approval: { name: 'Needs approval', sign: '?', tone: 'warn' },
  success: { name: 'Done', sign: '✓', tone: 'good' },
  failed: { name: 'Failed', sign: '✕', tone: 'bad' },
  rejected: { name: 'Rejected', sign: '⊘', tone: 'bad' },
  cancelled: { name: 'Cancelled', sign: '■', tone: 'quiet' },
});

const INCOMPLETE = { name: 'Done', sign: '!', tone: 'warn' };

/** How a job stands. One whose pages have no text from anybody is done, and not well. */
export const statusOf = (job) =>
  job.status === 'success' && job.result?.metadata.missing_pages.length ? INCOMPLETE : STATUS[job.status];

export const isOpen = (job) => ['awaiting_upload', 'queued', 'processing', 'awaiting_approval'].includes(job.status);

/** Nothing more happens by itself. A published job is sealed a moment later. */
export const isOver = (job) =>
  ['AUDITED', 'CANCELLED', 'FAILED', 'REJECTED'].includes(job.state) || (!job.state && !isOpen(job));

/** How a page stands, in the order of the legend. */
export const PAGE = open({
  waiting: { name: 'Waiting', sign: '·', says: 'waits' },
  working: { name: 'Being read', sign: '…', says: 'is being read' },
  ai: { name: 'Read by AI', sign: 'A', says: 'read by AI' },
  mupdf: { name: 'MuPDF, as planned', sign: 'T', says: "keeps MuPDF's text, as planned" },
  mupdf_fallback: { name: 'MuPDF, no model answered', sign: '!', says: "fell back to MuPDF's text" },
  mupdf_timeout_fallback: {
    name: 'MuPDF, out of time',
    sign: '◷',
    says: "kept MuPDF's text because the deadline came",
  },
  missing: { name: 'No text', sign: '✕', says: 'has no text from anybody' },
});

export function pageState(page) {
  if (page.status !== 'settled') return page.status;
  if (page.has_text === false && page.reason !== 'blank') return 'missing';
  return page.source;
}

export const ATTEMPT = open({
  answered: { name: 'Answered', sign: '✓', tone: 'good' },
  timeout: { name: 'Timed out', sign: '◷', tone: 'warn' },
  transient: { name: 'Failed', sign: '✕', tone: 'bad' },
  exhausted: { name: 'Out of quota', sign: '%', tone: 'warn' },
  configuration: { name: 'Key or model refused', sign: '⚙', tone: 'bad' },
  request: { name: 'Request refused', sign: '⊘', tone: 'bad' },
  unknown: { name: 'Unknown failure', sign: '?', tone: 'bad' },
  refusal: { name: 'Declined', sign: '⊘', tone: 'warn' },
  empty: { name: 'Empty answer', sign: '∅', tone: 'warn' },
  truncated: { name: 'Cut off', sign: '…', tone: 'warn' },
  repeating: { name: 'Repeated itself', sign: '↻', tone: 'warn' },
  incomplete: { name: 'Incomplete', sign: '◔', tone: 'warn' },
  breaker_open: { name: 'Passed by, breaker open', sign: '↷', tone: 'quiet' },
});

export const BREAKER = open({
  closed: { name: 'Closed', sign: '✓', tone: 'good', says: 'takes calls' },
  open: { name: 'Open', sign: '✕', tone: 'bad', says: 'rests' },
  half_open: { name: 'Probing', sign: '◐', tone: 'warn', says: 'one call tries it' },
});

export const PURCHASE = open({
  RUNNING: { name: 'Being paid', sign: '◐', tone: 'busy', says: 'the payment takes its time and goes on by itself' },
  COMPLETED: { name: 'Bought', sign: '✓', tone: 'good', says: 'bought, and in the balance' },
  COMPENSATING: { name: 'Being undone', sign: '↶', tone: 'warn', says: 'could not be bought; it is being undone' },
  COMPENSATED: { name: 'Undone', sign: '✕', tone: 'bad', says: 'not bought; nothing was kept' },
  MANUAL: { name: 'Needs a person', sign: '?', tone: 'warn', says: 'not bought yet; a person has to look at it' },
  RESOLVED: { name: 'Put right by a person', sign: '■', tone: 'quiet', says: 'put right by a person' },
});

/** Something more happens by itself. */
export const isMoving = (purchase) => ['RUNNING', 'COMPENSATING'].includes(purchase.state);

export const STEP = open({
  reserve: { name: 'Room in the account' },
  take_payment: { name: 'Payment' },
  allocate: { name: 'Credits set aside' },
  enter: { name: 'Into the balance' },
});

export const STEP_STATE = open({
  waiting: { name: 'not begun', sign: '·' },
  started: { name: 'begun', sign: '◐' },
  done: { name: 'done', sign: '✓' },
  refused: { name: 'refused', sign: '⊘' },
  unknown: { name: 'nobody knows yet', sign: '?' },
  undoing: { name: 'being undone', sign: '↶' },
  undone: { name: 'undone', sign: '■' },
  stuck: { name: 'could not be undone', sign: '✕' },
});

/** Why a page was classified as it was. */
export const REASON = {
  text: 'plain text',
  blank: 'blank',
  image: 'has an image',
  vector_figure: 'has a drawn figure',
  scanned: 'a scan',
  no_text_layer: 'no text layer',
  garbage_text: 'text layer is garbage',
  unreadable: "can't be parsed",
};
