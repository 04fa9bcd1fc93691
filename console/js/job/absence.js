// What stands where no events are shown: that they are on their way, that they could not be read, or
// that there are none. Some may have come by the stream before all are read: those alone would mislead.

import { h } from '../dom.js';
import { button, empty, loading } from '../parts.js';

export function absence(model, none) {
  const element = h('div', {});
  let shown;

  /** Whether it is shown. */
  function render(isEmpty) {
    const isShown = isEmpty || !model.hasEvents;
    element.hidden = !isShown;
    const now = model.trouble ?? model.hasEvents;
    if (now === shown) return isShown;
    shown = now;
    element.replaceChildren(
      model.trouble
        ? empty('It could not be read.', model.trouble, button('Try again', 'redo', model.retry))
        : model.hasEvents
          ? empty(none)
          : loading(),
    );
    return isShown;
  }

  return { element, render };
}
