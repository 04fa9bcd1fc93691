// Server-sent events over fetch, because EventSource can't send an API key.

import { address, authorization, problemOf, reportConnection } from './api.js';

const RECONNECT_MS = 2000;
const MAX_RECONNECT_MS = 10_000;

/** Resolves when the tab is visible. */
const visible = (signal) =>
  new Promise((resolve) => {
    const check = () => (!document.hidden || signal.aborted) && (over.abort(), resolve());
    const over = new AbortController();
    document.addEventListener('visibilitychange', check, { signal: over.signal });
    signal.addEventListener('abort', check, { signal: over.signal });
    check();
  });

/** An abort controller that aborts when the tab is hidden. */
function abortWhenHidden() {
  const hidden = new AbortController();
  const check = () => document.hidden && hidden.abort();
  document.addEventListener('visibilitychange', check, { signal: hidden.signal });
  return hidden;
}

const pause = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });

/**
 * Calls `on(kind, data)` for each event until the server ends the stream with 204, until `isOver`
 * when a stream ends, or until `signal`. Reopens a broken stream after the last event received.
 * Closes the stream while the tab is hidden: a browser allows six connections to a server, and
 * background tabs would use them up. Throws when the server has no stream.
 */
export async function listen(path, { on, signal, isOver = () => false }) {
  let lastId;
  let wait = RECONNECT_MS;
  let wasOpened = false;
  while (!signal.aborted) {
    await visible(signal);
    if (signal.aborted) return;
    const hidden = abortWhenHidden();
    const either = AbortSignal.any([signal, hidden.signal]);
    try {
      const resume = lastId ? { 'last-event-id': lastId } : {};
      const headers = { accept: 'text/event-stream', ...authorization(), ...resume };
      const response = await fetch(address(path), { headers, signal: either, cache: 'no-store' }).catch((error) => {
        if (!either.aborted) reportConnection(false);
        throw error;
      });
      reportConnection(true);
      if (response.status === 204) return;
      const type = response.headers.get('content-type') ?? '';
      if (!response.ok || !type.startsWith('text/event-stream')) {
        const problem = problemOf(response.status, await response.text());
        if (!wasOpened) throw Object.assign(problem, { noStream: true });
      } else {
        wasOpened = true;
        wait = RECONNECT_MS;
        for await (const event of events(response.body)) {
          if (event.id) lastId = event.id;
          if (event.data) on(event.kind, JSON.parse(event.data));
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error.noStream) throw error;
      if (hidden.signal.aborted) continue;
    } finally {
      // Removes the listener of this connection.
      hidden.abort();
    }
    if (signal.aborted || isOver()) return;
    await pause(wait, signal);
    wait = Math.min(wait * 2, MAX_RECONNECT_MS);
  }
}

/** Parses the events in a body, as the HTML standard defines. An event without data only carries an id. */
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
