// Light and dark: the system's theme, unless the user chose another.

const STORAGE = 'everypage.theme';
const system = matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set();

const chosen = () => {
  const stored = localStorage.getItem(STORAGE);
  return stored === 'light' || stored === 'dark' ? stored : undefined;
};

const current = () => chosen() ?? (system.matches ? 'dark' : 'light');

function apply() {
  document.documentElement.dataset.theme = current();
  for (const listener of listeners) listener(current());
}

export function toggle() {
  const next = current() === 'dark' ? 'light' : 'dark';
  // The system's own theme is not stored, so that the console keeps following the system.
  if (next === (system.matches ? 'dark' : 'light')) localStorage.removeItem(STORAGE);
  else localStorage.setItem(STORAGE, next);
  apply();
}

export function onTheme(listener) {
  listeners.add(listener);
  listener(current());
}

system.addEventListener('change', apply);
apply();
