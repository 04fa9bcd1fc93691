// Keeping a view up to date: by the server's stream where it has one, else by asking again.

import { me } from './session.js';
import { listen } from './stream.js';

/** Runs `work` every `interval()` ms while the page is seen, one at a time, until `signal`. */
export function every(interval, work, signal) {
  let timer;
  const again = async () => {
    clearTimeout(timer);
    if (signal.aborted || document.hidden) return;
    try {
      await work();
    } catch {
      // The view shows what it has; the next time may work.
    }
    clearTimeout(timer);
    if (!signal.aborted) timer = setTimeout(again, typeof interval === 'function' ? interval() : interval);
  };
  document.addEventListener('visibilitychange', again, { signal });
  signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
  timer = setTimeout(again, typeof interval === 'function' ? interval() : interval);
  return again;
}

/** `work` at most every `ms`, and once more after the last call. */
export function gathered(ms, work, signal) {
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

/** Tells `on(kind, data)` what happens; where the server has no stream, `poll` is run every `ms`. */
export async function follow(path, { on, poll, ms, signal, isOver }) {
  if (me.streams) {
    try {
      await listen(path, { on, signal, isOver });
      return;
    } catch {
      // It said that it streams, and does not: ask again and again instead.
    }
  }
  every(ms, poll, signal);
}
