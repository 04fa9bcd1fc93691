// What stands where there are no events: that they are on their way, that they could not be read, or
// that there are none.

import { h } from '../dom.js';
import { button, empty, loading } from '../parts.js';

export function absence(model, none) {
  const element = h('div', {});
  let shown;

  function render(isEmpty) {
    element.hidden = !isEmpty;
    const now = model.trouble ?? model.hasEvents;
    if (now === shown) return;
    shown = now;
    element.replaceChildren(
      model.trouble
        ? empty('It could not be read.', model.trouble, button('Try again', 'redo', model.retry))
        : model.hasEvents
          ? empty(none)
          : loading(),
    );
  }

  return { element, render };
}
