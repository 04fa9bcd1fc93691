// Shown in place of a job's events: loading, an error with a retry, or an empty state. Events from the
// stream alone are not shown, because they are not all of them.

import { button, empty, loading } from '../components.js';
import { h } from '../dom.js';

export function placeholder(model, emptyText) {
  const element = h('div', {});
  let shown;

  /** Returns whether the placeholder is visible. */
  function render(isEmpty) {
    const isVisible = isEmpty || !model.hasEvents;
    element.hidden = !isVisible;
    const now = model.error ?? model.hasEvents;
    if (now === shown) return isVisible;
    shown = now;
    element.replaceChildren(
      model.error
        ? empty('Events could not be loaded.', model.error, button('Retry', 'retry', model.retry))
        : model.hasEvents
          ? empty(emptyText)
          : loading(),
    );
    return isVisible;
  }

  return { element, render };
}
