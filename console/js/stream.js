// Server-sent events over fetch: EventSource can't send a key.

import { address, authorization, problemOf, tell } from './api.js';

const PAUSE = 2000;
const LONGEST_PAUSE = 10_000;

/** Until the page is seen. */
const seen = (signal) =>
  new Promise((resolve) => {
    const look = () => (!document.hidden || signal.aborted) && (over.abort(), resolve());
    const over = new AbortController();
    document.addEventListener('visibilitychange', look, { signal: over.signal });
    signal.addEventListener('abort', look, { signal: over.signal });
    look();
  });

/** Aborts when the page is hidden. */
function hiding() {
  const hidden = new AbortController();
  const look = () => document.hidden && hidden.abort();
  document.addEventListener('visibilitychange', look, { signal: hidden.signal });
  return hidden;
}

const pause = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });

/**
 * Calls `on(kind, data)` for each event until the server says that there is no more (204), until the
 * stream of something that ended is at its end, or until `signal`. A broken stream is opened again
 * where it broke. While the page is hidden there is none: a browser has six connections to a server,
 * and forgotten tabs would hold them all. Throws when the server gives no stream at all.
 */
export async function listen(path, { on, signal, isOver = () => false }) {
  let last;
  let wait = PAUSE;
  let opened = false;
  while (!signal.aborted) {
    await seen(signal);
    if (signal.aborted) return;
    const hidden = hiding();
    const either = AbortSignal.any([signal, hidden.signal]);
    try {
      const headers = { accept: 'text/event-stream', ...authorization(), ...(last ? { 'last-event-id': last } : {}) };
      const answer = await fetch(address(path), { headers, signal: either, cache: 'no-store' }).catch((error) => {
        if (!either.aborted) tell(false);
        throw error;
      });
      tell(true);
      if (answer.status === 204) return;
      const type = answer.headers.get('content-type') ?? '';
      if (!answer.ok || !type.startsWith('text/event-stream')) {
        const problem = problemOf(answer.status, await answer.text());
        if (!opened) throw Object.assign(problem, { noStream: true });
      } else {
        opened = true;
        wait = PAUSE;
        for await (const event of events(answer.body)) {
          if (event.id) last = event.id;
          if (event.data) on(event.kind, JSON.parse(event.data));
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error.noStream) throw error;
      if (hidden.signal.aborted) continue;
    } finally {
      // Nobody waits for it any more.
      hidden.abort();
    }
    if (signal.aborted || isOver()) return;
    await pause(wait, signal);
    wait = Math.min(wait * 2, LONGEST_PAUSE);
  }
}

/** The events in a body, as the HTML standard reads them; one without data tells where the stream is. */
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  let event = { kind: 'message', data: [], id: undefined };
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const lines = text.split(/\r\n|\n|\r/);
    text = lines.pop();
    for (const line of lines) {
      if (line === '') {
        if (event.data.length || event.id) yield { ...event, data: event.data.join('\n') };
        event = { kind: 'message', data: [], id: event.id };
      } else {
        const [, name, content] = line.match(/^([^:]*):? ?(.*)$/);
        if (name === 'event') event.kind = content;
        else if (name === 'data') event.data.push(content);
        else if (name === 'id') event.id = content;
      }
    }
  }
}
