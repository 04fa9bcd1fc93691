// Who is asking, and what the server offers them.

import { get, setKey, key, ApiError } from './api.js';
import { h } from './dom.js';
import { field } from './parts.js';
import { openDialog } from './dialogs.js';

/** What a server that does not tell is taken to offer. */
const UNTOLD = { tenant: '', user: '', role: 'operator', version: '', uploads: false, streams: false };

export let me = UNTOLD;

export const isOperator = () => me.role === 'operator';

export async function identify() {
  try {
    me = await get('/v1/me');
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    me = UNTOLD;
  }
}

let asking;

/** Asks for an API key, once for all requests that wait for one. False when nobody gave one. */
export function askForKey(refused) {
  asking ??= ask(refused).then((given) => {
    asking = undefined;
    // Whose key it is may be somebody else now.
    if (given) dispatchEvent(new Event('everypage:key'));
    return given;
  });
  return asking;
}

async function ask(refused) {
  const input = h('input', {
    type: 'password',
    name: 'key',
    autocomplete: 'off',
    spellcheck: 'false',
    required: true,
    placeholder: 'ep_…',
  });
  const answer = await openDialog({
    title: 'API key',
    action: 'Continue',
    body: [
      h('p', {}, refused ? 'This key is not in force here. Another one?' : 'This server wants to know who is asking.'),
      field('API key', input, 'Kept in this tab only, until it is closed. `everypage keys create` makes one.'),
    ],
    read: () => input.value.trim(),
  });
  if (!answer) return false;
  setKey(answer);
  return true;
}

export function forget() {
  setKey(undefined);
  location.reload();
}

export const hasKey = () => Boolean(key());
