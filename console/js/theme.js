// Light and dark: as the system has it, or as somebody chose.

const KEPT = 'everypage.theme';
const system = matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set();

const chosen = () => {
  const kept = localStorage.getItem(KEPT);
  return kept === 'light' || kept === 'dark' ? kept : undefined;
};

const current = () => chosen() ?? (system.matches ? 'dark' : 'light');

function apply() {
  document.documentElement.dataset.theme = current();
  for (const listener of listeners) listener(current());
}

export function toggle() {
  const next = current() === 'dark' ? 'light' : 'dark';
  // What the system has anyway is not kept: the page goes on following it.
  if (next === (system.matches ? 'dark' : 'light')) localStorage.removeItem(KEPT);
  else localStorage.setItem(KEPT, next);
  apply();
}

export function onTheme(listener) {
  listeners.add(listener);
  listener(current());
}

system.addEventListener('change', apply);
apply();
