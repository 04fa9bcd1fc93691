// Modal dialogs: the browser keeps the focus inside, Escape closes, the focus goes back.

import { h } from './dom.js';
import { button } from './parts.js';

let counter = 0;

/**
 * Opens a dialog with a form. Gives what `read` returns when the action was chosen, else undefined.
 * Where `run` is given it is awaited before the dialog closes, and what it throws is shown inside.
 */
export function openDialog({ title, body, action, tone = 'primary', read = () => true, run }) {
  const id = `dialog-${++counter}`;
  return new Promise((resolve) => {
    let result;
    const trouble = h('p', { class: 'trouble', role: 'alert', hidden: true });
    const go = action && h('button', { class: `button ${tone}`, type: 'submit' }, action);
    const close = () => dialog.close();
    const form = h(
      'form',
      {
        onsubmit: async (event) => {
          event.preventDefault();
          if (!go) return;
          const value = read(form);
          if (value === undefined) return;
          try {
            go.disabled = true;
            trouble.hidden = true;
            result = run ? await run(value, dialog) : value;
            close();
          } catch (error) {
            trouble.textContent = error.message;
            trouble.hidden = false;
          } finally {
            go.disabled = false;
          }
        },
      },
      h('h2', { id }, title),
      ...[body].flat(),
      trouble,
      h('div', { class: 'dialog-actions' }, button(action ? 'Cancel' : 'Close', null, close), go),
    );
    const dialog = h(
      'dialog',
      {
        'aria-labelledby': id,
        onclose: () => {
          dialog.remove();
          resolve(result);
        },
      },
      form,
    );
    document.body.append(dialog);
    dialog.showModal();
    // A click beside the dialog is one on its backdrop.
    dialog.addEventListener('pointerdown', (event) => event.target === dialog && close());
  });
}

export const confirm = (title, text, action, tone = 'primary', run) =>
  openDialog({ title, body: [text].flat().map((line) => h('p', {}, line)), action, tone, run });
