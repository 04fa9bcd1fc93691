// The caller's identity, and what the server offers to it.

import { ApiError, get, key, setKey } from './api.js';
import { field } from './components.js';
import { openDialog } from './dialogs.js';
import { h } from './dom.js';

/** Assumed for a server without `/v1/me`. */
const DEFAULTS = { tenant: '', user: '', role: 'operator', version: '', uploads: false, streams: false, providers: [] };

export let me = DEFAULTS;

export const isOperator = () => me.role === 'operator';

export async function identify() {
  try {
    me = await get('/v1/me');
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    me = DEFAULTS;
  }
}

let pending;

/** Asks for an API key, once for all requests that need one. Returns false when none was entered. */
export function requestKey(rejected) {
  pending ??= openKeyDialog(rejected).then((isGiven) => {
    pending = undefined;
    // The new key may belong to another user.
    if (isGiven) dispatchEvent(new Event('everypage:key'));
    return isGiven;
  });
  return pending;
}

async function openKeyDialog(rejected) {
  const input = h('input', {
    type: 'password',
    name: 'key',
    autocomplete: 'off',
    spellcheck: 'false',
    required: true,
    placeholder: 'ep_…',
  });
  const value = await openDialog({
    title: 'API key',
    action: 'Continue',
    body: [
      h('p', {}, rejected ? 'This API key is not valid. Enter another one.' : 'This server requires an API key.'),
      field('API key', input, 'Stored in this tab until it is closed. Create one with `everypage keys create`.'),
    ],
    read: () => input.value.trim(),
  });
  if (!value) return false;
  setKey(value);
  return true;
}

export function removeKey() {
  setKey(undefined);
  location.reload();
}

export const hasKey = () => Boolean(key());
