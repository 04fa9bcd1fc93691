// The image of a page.

import { request } from '../api.js';
import { empty } from '../components.js';
import { h } from '../dom.js';

export function image(number, signal) {
  const element = h('figure', { class: 'page-image card' });

  /** A plain image element sends no API key, so the image is fetched and shown from memory. */
  async function draw(info) {
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
        picture,
      );
      const caption = info.sent ? 'As sent to the models' : 'Rendered for this view; not sent to a model';
      element.replaceChildren(zoom, h('figcaption', {}, caption));
    } catch (error) {
      if (!signal.aborted) element.replaceChildren(empty('The image could not be loaded.', error.message));
    }
  }

  return { element, draw };
}
