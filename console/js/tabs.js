// Tabs whose choice stands in the address.

import { h } from './dom.js';

/** `names` as [name, label]; `place(name)` is a tab's address; panels are elements by name. */
export function tabs(label, names, place, panels) {
  const links = new Map(
    names.map(([name, text]) => [
      name,
      h('a', { role: 'tab', id: `tab-${name}`, href: place(name), 'aria-controls': `panel-${name}` }, text),
    ]),
  );
  for (const [name, panel] of Object.entries(panels)) {
    Object.assign(panel, { id: `panel-${name}`, hidden: true });
    panel.setAttribute('role', 'tabpanel');
    panel.setAttribute('aria-labelledby', `tab-${name}`);
  }
  let current = names[0][0];

  // One stop for the Tab key; arrows go from tab to tab.
  const move = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = names.findIndex(([name]) => name === current);
    const [next] = names[(at + by + names.length) % names.length];
    location.hash = place(next);
    links.get(next).focus();
  };

  /** Shows a panel, the first one where there is none of that name; gives the name of the one that is shown. */
  function choose(name) {
    current = links.has(name) ? name : names[0][0];
    for (const [other, link] of links) {
      const isChosen = other === current;
      panels[other].hidden = !isChosen;
      link.setAttribute('aria-selected', String(isChosen));
      link.tabIndex = isChosen ? 0 : -1;
    }
    return current;
  }

  const element = h('div', { class: 'tabs', role: 'tablist', 'aria-label': label, onkeydown: move }, [
    ...links.values(),
  ]);
  return { element, choose };
}
