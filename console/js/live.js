// Keeps a view up to date: by the server's event stream where it has one, else by polling.

import { me } from './session.js';
import { listen } from './stream.js';

/**
 * Runs `work` every `interval` ms (a number or a function) while the tab is visible, one run at a
 * time, until `signal`. Returns a function that runs it immediately.
 */
export function every(interval, work, signal) {
  let timer;
  const next = () => setTimeout(run, typeof interval === 'function' ? interval() : interval);
  const run = async () => {
    clearTimeout(timer);
    if (signal.aborted || document.hidden) return;
    try {
      await work();
    } catch {
      // The view keeps what it shows; the next run may succeed.
    }
    clearTimeout(timer);
    if (!signal.aborted) timer = next();
  };
  document.addEventListener('visibilitychange', run, { signal });
  signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
  timer = next();
  return run;
}

/** Throttles `work` to once per `ms`, with a trailing run after the last call. */
export function throttled(ms, work, signal) {
  let timer;
  let due = 0;
  return () => {
    if (timer || signal.aborted) return;
    timer = setTimeout(
      () => {
        timer = undefined;
        due = Date.now() + ms;
        if (!signal.aborted) work();
      },
      Math.max(0, due - Date.now()),
    );
  };
}

/** Calls `on(kind, data)` for each event of the stream; without a stream, runs `poll` every `ms`. */
export async function follow(path, { on, poll, ms, signal, isOver }) {
  if (me.streams) {
    try {
      await listen(path, { on, signal, isOver });
      return;
    } catch {
      // The server announced streams but returned none: poll instead.
    }
  }
  every(ms, poll, signal);
}
