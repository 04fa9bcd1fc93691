// Documents come in: dropped anywhere, or chosen.

import { address, authorization, get, isUnknown, key, post, problemOf, query } from './api.js';
import { h, setText } from './dom.js';
import { bytes, plural } from './format.js';
import { notice, trouble } from './notices.js';
import { askForKey, me } from './session.js';

/** A body through API Gateway and Lambda has at most 6 MB, base64 included; larger go past it. */
const MOST_THROUGH_THE_API = 4_000_000;
const ASK_AGAIN = 1000;
/** The store tells of what it has within seconds; after this it is not waited for. */
const LONGEST_WAIT = 120_000;

/** Options of the next uploads, as the form on the jobs' page has them. */
export const options = {};

/** Sends a body and tells how far it is; fetch can't tell. */
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
    request.onerror = () => reject(new Error('the upload broke off: the server does not answer'));
    request.send(body);
  });
}

/** A document with its password. A header can't hold every character, a field of a form can. */
function form(file, password) {
  const fields = new FormData();
  fields.append('password', password);
  fields.append('file', file);
  return fields;
}

async function throughTheApi(file, { password, ...wanted }, onProgress) {
  const path = `/v1/jobs${query({ name: file.name, ...wanted })}`;
  for (;;) {
    // The browser writes the type of a form itself.
    const type = password ? {} : { 'content-type': 'application/pdf' };
    const body = password ? form(file, password) : file;
    const used = key();
    const answer = await send('POST', address(path), { ...type, ...authorization() }, body, onProgress);
    // Somebody may have given a key while this was being sent.
    if (isUnknown(answer.status, answer.type) && (used !== key() || (await askForKey(used)))) continue;
    if (answer.status >= 300) throw problemOf(answer.status, answer.text);
    return JSON.parse(answer.text);
  }
}

async function pastTheApi(file, wanted, onProgress) {
  const job = await post('/v1/jobs', { upload: true, name: file.name, ...wanted });
  const { method, url, headers } = job.upload;
  const { status } = await send(method, url, headers, file, onProgress);
  if (status >= 300) throw new Error(`the store refused ${file.name}: it answered ${status}`);
  const until = Date.now() + LONGEST_WAIT;
  for (;;) {
    const now = await get(`/v1/jobs/${job.id}`);
    if (now.status !== 'awaiting_upload') return now;
    if (Date.now() > until) throw new Error('it was sent, but nobody has taken it in yet; look for it later');
    await new Promise((resolve) => setTimeout(resolve, ASK_AGAIN));
  }
}

/** Documents that are being sent; the browser asks before it closes the tab on them. */
let underWay = 0;
const hold = (event) => event.preventDefault();

function begin() {
  underWay += 1;
  addEventListener('beforeunload', hold);
}

function end() {
  underWay -= 1;
  if (!underWay) removeEventListener('beforeunload', hold);
}

async function upload(file, wanted) {
  const name = h('span', { class: 'notice-text' }, `Sending ${file.name} (${bytes(file.size)})`);
  const bar = h('progress', { max: 1, value: 0, 'aria-label': `Sending ${file.name}` });
  const box = h('div', { class: 'notice' }, name, bar);
  document.getElementById('notices').append(box);
  const onProgress = (part) => {
    bar.value = part;
    if (part >= 1) setText(name, `${file.name} was sent`);
  };
  try {
    if (me.max_file_bytes && file.size > me.max_file_bytes) {
      throw new Error(`${file.name} has ${bytes(file.size)}; at most ${bytes(me.max_file_bytes)} are taken`);
    }
    const way = me.uploads && file.size > MOST_THROUGH_THE_API ? pastTheApi : throughTheApi;
    const job = await way(file, wanted, onProgress);
    if (job.repeated) {
      notice(`${file.name} was sent before with the same options: this is that job`, {
        actions: [['Read it again', () => take([file], { again: true })]],
      });
    }
    return job;
  } catch (error) {
    trouble(new Error(`${file.name}: ${error.message}`));
    return undefined;
  } finally {
    box.remove();
  }
}

/**
 * Sends documents one after the other. One alone is shown at once, several in the list; whoever went
 * elsewhere meanwhile, or has a dialog open, stays there and is told.
 */
async function take(files, more = {}) {
  const wanted = { ...options, ...more };
  const began = location.hash;
  const jobs = [];
  begin();
  try {
    for (const file of files) {
      const job = await upload(file, wanted);
      if (job) jobs.push({ id: job.id, name: file.name });
    }
  } finally {
    end();
  }
  if (jobs.length) {
    const isOne = jobs.length === 1;
    const place = isOne ? `#/jobs/${jobs[0].id}` : '#/jobs';
    if (location.hash === began && !document.querySelector('dialog[open]')) location.hash = place;
    else if (location.hash !== place) {
      const what = isOne ? jobs[0].name : plural(jobs.length, 'document');
      notice(`${what} ${isOne ? 'was' : 'were'} taken in`, {
        tone: 'good',
        actions: [[isOne ? 'Show the job' : 'Show the jobs', place]],
      });
    }
  }
  dispatchEvent(new Event('everypage:uploaded'));
}

const input = h('input', {
  type: 'file',
  accept: 'application/pdf,.pdf',
  multiple: true,
  hidden: true,
  id: 'files',
  onchange: () => {
    const files = [...input.files];
    input.value = '';
    take(files);
  },
});

export function chooseFiles() {
  input.click();
}

/** Makes the whole window a place to drop documents. */
export function takeDrops() {
  document.body.append(input);
  const veil = h('div', { class: 'veil', hidden: true, 'aria-hidden': 'true' }, h('p', {}, 'Drop PDFs to read them'));
  document.body.append(veil);
  const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes('Files');
  let depth = 0;
  const away = () => {
    depth = 0;
    veil.hidden = true;
  };
  addEventListener('dragenter', (event) => {
    if (!hasFiles(event)) return;
    depth += 1;
    veil.hidden = false;
  });
  addEventListener('dragleave', (event) => hasFiles(event) && --depth <= 0 && away());
  addEventListener('dragover', (event) => hasFiles(event) && event.preventDefault());
  addEventListener('drop', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    away();
    const files = [...event.dataTransfer.files];
    if (files.length) take(files);
  });
}
