// What a page looks like.

import { request } from '../api.js';
import { h } from '../dom.js';
import { empty } from '../parts.js';

export function sheet(number, signal) {
  const element = h('figure', { class: 'sheet card' });

  /** A link carries no key, so the image is fetched and shown from memory. */
  async function draw(image) {
    if (!image) return element.replaceChildren(empty('No image of this page is kept.'));
    try {
      const url = URL.createObjectURL(await (await request(image.href, { signal })).blob());
      signal.addEventListener('abort', () => URL.revokeObjectURL(url), { once: true });
      const picture = h('img', { src: url, alt: `Page ${number} as it looks` });
      const enlarge = () => zoom.setAttribute('aria-pressed', String(element.classList.toggle('full')));
      const looks = { type: 'button', class: 'sheet-zoom', 'aria-pressed': 'false', 'aria-label': 'Full size' };
      const zoom = h('button', { ...looks, onclick: enlarge }, picture);
      const words = image.sent ? 'As the models saw it' : 'Drawn for you; no model saw it';
      element.replaceChildren(zoom, h('figcaption', {}, words));
    } catch (error) {
      if (!signal.aborted) element.replaceChildren(empty('There is no image of this page.', error.message));
    }
  }

  return { element, draw };
}
