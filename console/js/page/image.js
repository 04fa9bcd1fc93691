// The image of a page, with the blocks that were found outlined on it.

import { request } from '../api.js';
import { empty } from '../components.js';
import { h } from '../dom.js';

/** Whether blocks are outlined, kept while paging through a document. */
let isOutlined = true;

export function image(number, signal) {
  const element = h('figure', { class: 'page-image card' });
  const outlinesButton = h(
    'button',
    { type: 'button', class: 'button small', onclick: toggleOutlines },
    'Block outlines',
  );

  function showOutlines() {
    element.classList.toggle('outlined', isOutlined);
    outlinesButton.setAttribute('aria-pressed', String(isOutlined));
  }

  function toggleOutlines() {
    isOutlined = !isOutlined;
    showOutlines();
  }

  /** A plain image element sends no API key, so the image is fetched and shown from memory. */
  async function draw(info, outlines) {
    if (!info) return element.replaceChildren(empty('No image is stored for this page.'));
    try {
      const url = URL.createObjectURL(await (await request(info.href, { signal })).blob());
      signal.addEventListener('abort', () => URL.revokeObjectURL(url), { once: true });
      const picture = h('img', { src: url, alt: `Image of page ${number}` });
      const toggle = () => zoom.setAttribute('aria-pressed', String(element.classList.toggle('full')));
      const zoom = h(
        'button',
        {
          type: 'button',
          class: 'page-image-zoom',
          'aria-pressed': 'false',
          'aria-label': 'Full size',
          onclick: toggle,
        },
        h('span', { class: 'sheet' }, picture, outlines),
      );
      const caption = info.sent ? 'As sent to the models' : 'Rendered for this view; not sent to a model';
      element.replaceChildren(
        zoom,
        h('figcaption', {}, h('span', {}, caption), outlines && outlinesButton),
      );
      showOutlines();
    } catch (error) {
      if (!signal.aborted) element.replaceChildren(empty('The image could not be loaded.', error.message));
    }
  }

  return { element, draw, toggleOutlines };
}
