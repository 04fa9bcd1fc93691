// Tabs; the address holds the current one.

import { h } from './dom.js';

/** `names` are [name, label]; `addressOf(name)` is a tab's address; `panels` are elements by name. */
export function tabs(label, names, addressOf, panels) {
  const links = new Map(
    names.map(([name, text]) => [
      name,
      h('a', { role: 'tab', id: `tab-${name}`, href: addressOf(name), 'aria-controls': `panel-${name}` }, text),
    ]),
  );
  for (const [name, panel] of Object.entries(panels)) {
    Object.assign(panel, { id: `panel-${name}`, hidden: true });
    panel.setAttribute('role', 'tabpanel');
    panel.setAttribute('aria-labelledby', `tab-${name}`);
  }
  let current = names[0][0];

  // A single stop for the Tab key; arrow keys move between tabs.
  const move = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = names.findIndex(([name]) => name === current);
    const [next] = names[(at + by + names.length) % names.length];
    location.hash = addressOf(next);
    links.get(next).focus();
  };

  /** Shows the named panel, or the first one for an unknown name. Returns the name of the panel shown. */
  function choose(name) {
    current = links.has(name) ? name : names[0][0];
    for (const [other, link] of links) {
      const isCurrent = other === current;
      panels[other].hidden = !isCurrent;
      link.setAttribute('aria-selected', String(isCurrent));
      link.tabIndex = isCurrent ? 0 : -1;
    }
    return current;
  }

  const element = h('div', { class: 'tabs', role: 'tablist', 'aria-label': label, onkeydown: move }, [
    ...links.values(),
  ]);
  return { element, choose };
}
