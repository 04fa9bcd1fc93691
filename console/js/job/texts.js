// The text of every page for the grid: of the latest result or, while the job runs, the best so far.

import { get } from '../api.js';
import { MAX_LARGE_TILES } from '../tiles.js';

/** Characters of a page that its tile can show. */
const MAX_SHOWN = 100;

const opening = (page) =>
  page.has_text ? page.text.slice(0, 2 * MAX_SHOWN).replace(/\s+/g, ' ').trim().slice(0, MAX_SHOWN) : '';

/** Loads texts into `model.texts`, as page number to opening words. Small tiles show none. */
export function texts(model, path, signal) {
  model.texts = new Map();
  let loaded;

  /** Texts change when a page is settled or a version is published, so nothing else is worth a request. */
  const version = () => {
    const settled = [...model.pages.values()].filter(({ status }) => status === 'settled').length;
    return `${model.job.result?.version} ${model.pages.size} ${settled}`;
  };

  return async function load() {
    const wanted = version();
    if (!model.pages.size || model.pages.size > MAX_LARGE_TILES || wanted === loaded) return;
    // A failed job has its pages too, as far as they were read.
    const document = await get(`${path}/result?provisional=true&format=json`, signal);
    loaded = wanted;
    model.texts = new Map(document.pages.map((page) => [page.page, opening(page)]));
  };
}
