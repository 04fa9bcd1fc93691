// Line icons on a 16 × 16 grid, in the colour of the surrounding text.

import { svg } from './dom.js';

const PATHS = {
  jobs: 'M3 2.5h7l3 3v8H3zM10 2.5v3h3M5.5 8.5h5M5.5 11h5',
  deadLetters: 'M2.5 4h11v8.5h-11zM2.5 4.5 8 9l5.5-4.5M6 12.5 10 12.5',
  notices: 'M4 11.5V7a4 4 0 0 1 8 0v4.5l1 1H3zM6.8 14.2h2.4',
  models: 'M8 1.5v3M8 11.5v3M1.5 8h3M11.5 8h3M4.5 4.5h7v7h-7zM6.8 6.8h2.4v2.4H6.8z',
  stats: 'M2.5 13.5h11M4.5 11V8M8 11V4M11.5 11V6',
  account: 'M1.5 3.5h13v9h-13zM1.5 6.5h13M4 10h2.5',
  upload: 'M8 10.5v-8M4.5 6 8 2.5 11.5 6M2.5 10.5v3h11v-3',
  search: 'M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.5 10.5l3 3',
  sun: 'M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6zM8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9',
  moon: 'M13 9.8A5.5 5.5 0 0 1 6.2 3 5.5 5.5 0 1 0 13 9.8z',
  keyboard: 'M1.5 4h13v8h-13zM4 6.5h.1M6.7 6.5h.1M9.3 6.5h.1M12 6.5h.1M4.5 9.5h7',
  key: 'M5 10.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM7.5 8h7M12 8v2.5',
  left: 'M10 3 5 8l5 5',
  right: 'M6 3l5 5-5 5',
  close: 'M3.5 3.5l9 9M12.5 3.5l-9 9',
  download: 'M8 2.5v8M4.5 7 8 10.5 11.5 7M2.5 13.5h11',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  retry: 'M13 8a5 5 0 1 1-1.6-3.7M13.2 1.8v3h-3',
  stop: 'M4 4h8v8H4z',
  check: 'M3 8.5 6.5 12 13 4.5',
  trash: 'M3 4.5h10M6 4.5v-2h4v2M4.5 4.5l.6 9h5.8l.6-9',
  pen: 'M3 13l.6-2.8 7.3-7.3 2.2 2.2-7.3 7.3z',
};

export const icon = (name) =>
  svg(
    'svg',
    { class: 'icon', viewBox: '0 0 16 16', width: 16, height: 16, 'aria-hidden': 'true', focusable: 'false' },
    svg('path', { d: PATHS[name] }),
  );
