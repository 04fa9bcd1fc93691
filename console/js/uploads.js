// Uploads documents that are dropped anywhere or chosen.

import { address, authorization, get, isUnauthenticated, key, post, problemOf, query } from './api.js';
import { h, setText } from './dom.js';
import { bytes, duration, plural } from './format.js';
import { notice, showError } from './notices.js';
import { me, requestKey } from './session.js';

/** A body through API Gateway and Lambda is limited to 6 MB in base64; larger documents go directly to storage. */
const MAX_API_BYTES = 4_000_000;
const POLL_INTERVAL = 1000;
/** Storage reports a new document within seconds. */
const ACCEPT_TIMEOUT = 120_000;

/** Options of the next uploads, set by the form on the jobs page. */
export const options = {};

/** Sends a body and reports the upload progress, which fetch does not. */
function send(method, url, headers, body, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    request.onload = () =>
      resolve({
        status: request.status,
        type: request.getResponseHeader('content-type'),
        text: request.responseText,
      });
    request.onerror = () => reject(new Error('upload failed: the server is not responding'));
    request.send(body);
  });
}

/** What documents may be. */
const TYPES = ['application/pdf', 'image/png', 'image/jpeg', 'image/tiff', 'image/webp'];

/** A form with the document and its password: unlike a header, a form field can hold every character. */
function form(file, password) {
  const fields = new FormData();
  fields.append('password', password);
  fields.append('file', file);
  return fields;
}

async function uploadThroughApi(file, { password, ...jobOptions }, onProgress) {
  const path = `/v1/jobs${query({ name: file.name, ...jobOptions })}`;
  for (;;) {
    // The browser sets the content type of a form itself, with its boundary.
    const type = password ? {} : { 'content-type': TYPES.includes(file.type) ? file.type : 'application/octet-stream' };
    const body = password ? form(file, password) : file;
    const used = key();
    const response = await send('POST', address(path), { ...type, ...authorization() }, body, onProgress);
    // The user may have entered a key during the upload.
    if (isUnauthenticated(response.status, response.type) && (used !== key() || (await requestKey(used)))) continue;
    if (response.status >= 300) throw problemOf(response.status, response.text);
    return JSON.parse(response.text);
  }
}

async function uploadToStorage(file, jobOptions, onProgress) {
  const job = await post('/v1/jobs', { upload: true, name: file.name, ...jobOptions });
  const { method, url, headers } = job.upload;
  const { status } = await send(method, url, headers, file, onProgress);
  if (status >= 300) throw new Error(`upload failed: storage responded with status ${status}`);
  const until = Date.now() + ACCEPT_TIMEOUT;
  for (;;) {
    const now = await get(`/v1/jobs/${job.id}`);
    if (now.status !== 'awaiting_upload') return now;
    if (Date.now() > until) {
      throw new Error(`uploaded, but not accepted within ${duration(ACCEPT_TIMEOUT)}; check the list of jobs later`);
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL));
  }
}

/** Uploads in progress; the browser asks for confirmation before it closes the tab during one. */
let active = 0;
const confirmClose = (event) => event.preventDefault();

function begin() {
  active += 1;
  addEventListener('beforeunload', confirmClose);
}

function end() {
  active -= 1;
  if (!active) removeEventListener('beforeunload', confirmClose);
}

async function upload(file, jobOptions) {
  const label = h('span', { class: 'notice-text' }, `Uploading ${file.name} (${bytes(file.size)})`);
  const bar = h('progress', { max: 1, value: 0, 'aria-label': `Uploading ${file.name}` });
  const box = h('div', { class: 'notice' }, label, bar);
  document.getElementById('notices').append(box);
  const onProgress = (part) => {
    bar.value = part;
    if (part >= 1) setText(label, `${file.name} was uploaded`);
  };
  try {
    if (me.max_file_bytes && file.size > me.max_file_bytes) {
      throw new Error(`the file has ${bytes(file.size)}, more than the limit of ${bytes(me.max_file_bytes)}`);
    }
    const isLarge = me.uploads && file.size > MAX_API_BYTES;
    const job = await (isLarge ? uploadToStorage : uploadThroughApi)(file, jobOptions, onProgress);
    if (job.repeated) {
      notice(`${file.name} was uploaded before with the same options; this is that job`, {
        actions: [['Process again', () => uploadAll([file], { force: true })]],
      });
    }
    return job;
  } catch (error) {
    showError(new Error(`${file.name}: ${error.message}`));
    return undefined;
  } finally {
    box.remove();
  }
}

/**
 * Uploads documents one after the other, then shows the job, or the list for several. When the user
 * has gone to another view or opened a dialog in the meantime, a notice links there instead.
 */
async function uploadAll(files, more = {}) {
  const jobOptions = { ...options, ...more };
  const startedAt = location.hash;
  const jobs = [];
  begin();
  try {
    for (const file of files) {
      const job = await upload(file, jobOptions);
      if (job) jobs.push({ id: job.id, name: file.name });
    }
  } finally {
    end();
  }
  if (jobs.length) {
    const isOne = jobs.length === 1;
    const target = isOne ? `#/jobs/${jobs[0].id}` : '#/jobs';
    if (location.hash === startedAt && !document.querySelector('dialog[open]')) location.hash = target;
    else if (location.hash !== target) {
      const what = isOne ? jobs[0].name : plural(jobs.length, 'document');
      notice(`${what} ${isOne ? 'was' : 'were'} accepted`, {
        tone: 'good',
        actions: [[isOne ? 'View job' : 'View jobs', target]],
      });
    }
  }
  dispatchEvent(new Event('everypage:uploaded'));
}

const input = h('input', {
  type: 'file',
  accept: [...TYPES, '.pdf', '.tif', '.tiff', '.webp'].join(','),
  multiple: true,
  hidden: true,
  id: 'files',
  onchange: () => {
    const files = [...input.files];
    input.value = '';
    uploadAll(files);
  },
});

export function chooseFiles() {
  input.click();
}

/** Makes the whole window a drop area for documents. */
export function acceptDrops() {
  document.body.append(input);
  const prompt = h('p', {}, 'Drop PDFs or images to upload');
  const overlay = h('div', { class: 'drop-overlay', hidden: true, 'aria-hidden': 'true' }, prompt);
  document.body.append(overlay);
  const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes('Files');
  let depth = 0;
  const hide = () => {
    depth = 0;
    overlay.hidden = true;
  };
  addEventListener('dragenter', (event) => {
    if (!hasFiles(event)) return;
    depth += 1;
    overlay.hidden = false;
  });
  addEventListener('dragleave', (event) => hasFiles(event) && --depth <= 0 && hide());
  addEventListener('dragover', (event) => hasFiles(event) && event.preventDefault());
  addEventListener('drop', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    hide();
    const files = [...event.dataTransfer.files];
    if (files.length) uploadAll(files);
  });
}
