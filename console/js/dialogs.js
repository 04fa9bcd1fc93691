// Modal dialogs: the browser traps the focus, closes on Escape and restores the focus.

import { button } from './components.js';
import { h } from './dom.js';

let counter = 0;

/**
 * Opens a dialog with a form. Resolves to the value of `read` when the action was chosen, else to
 * undefined. With `run`, the dialog waits for it, shows its error or resolves to its result.
 */
export function openDialog({ title, body, action, tone = 'primary', read = () => true, run }) {
  const id = `dialog-${++counter}`;
  return new Promise((resolve) => {
    let result;
    const alert = h('p', { class: 'error', role: 'alert', hidden: true });
    const submit = action && h('button', { class: `button ${tone}`, type: 'submit' }, action);
    const close = () => dialog.close();
    const form = h(
      'form',
      {
        onsubmit: async (event) => {
          event.preventDefault();
          if (!submit) return;
          const value = read(form);
          if (value === undefined) return;
          try {
            submit.disabled = true;
            alert.hidden = true;
            result = run ? await run(value, dialog) : value;
            close();
          } catch (error) {
            alert.textContent = error.message;
            alert.hidden = false;
          } finally {
            submit.disabled = false;
          }
        },
      },
      h('h2', { id }, title),
      ...[body].flat(),
      alert,
      h('div', { class: 'dialog-actions' }, button(action ? 'Cancel' : 'Close', null, close), submit),
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
    // A click outside the dialog is a click on its backdrop.
    dialog.addEventListener('pointerdown', (event) => event.target === dialog && close());
  });
}

export const confirm = (title, text, action, tone = 'primary', run) =>
  openDialog({ title, body: [text].flat().map((line) => h('p', {}, line)), action, tone, run });
