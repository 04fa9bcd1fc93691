// The HTTP API: sends requests with the caller's key, returns parsed responses, throws `ApiError`.

const KEY_STORAGE = 'everypage.key';
const MAX_TRIES = 4;
/** In seconds. A longer `Retry-After` is shown as an error instead of being waited for. */
const MAX_RETRY_AFTER = 10;

/** An error response, read from its problem document; `status` is 0 when there was no response. */
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

let base = '';
let requestKey = async () => false;

/** Sets the API's origin: the console's own, unless config.json names another. */
export async function configure(onKeyNeeded) {
  requestKey = onKeyNeeded;
  const response = await fetch('config.json');
  const config = response.ok ? await response.json() : {};
  base = (config.api ?? '').replace(/\/+$/, '');
}

// The key is stored in the tab only and is gone when the tab is closed.
export const key = () => sessionStorage.getItem(KEY_STORAGE);
export const setKey = (value) =>
  value ? sessionStorage.setItem(KEY_STORAGE, value) : sessionStorage.removeItem(KEY_STORAGE);

/** Reports whether the server responded to the latest request; the page shows a banner when it did not. */
export const reportConnection = (isConnected) =>
  dispatchEvent(new CustomEvent('everypage:connection', { detail: isConnected }));

export const address = (path) => base + path;

export const authorization = () => (key() ? { authorization: `Bearer ${key()}` } : {});

export const query = (values) => {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return given.length ? `?${new URLSearchParams(given)}` : '';
};

export function problemOf(status, text) {
  try {
    const problem = JSON.parse(text);
    return new ApiError(status, problem.code ?? '', problem.detail ?? problem.message ?? problem.title ?? text);
  } catch {
    return new ApiError(status, '', `the server responded with status ${status}`);
  }
}

/** Whether the key is missing or wrong. API Gateway rejects a wrong key with 403 and no problem document. */
export const isUnauthenticated = (status, type) =>
  status === 401 || (status === 403 && !type?.startsWith('application/problem+json'));

/** Sends a request. When the key is missing or wrong, asks for one and sends the request again. */
export async function request(path, { method = 'GET', json, headers = {}, signal } = {}) {
  for (let tries = 1; ; tries += 1) {
    const options = { method, signal, headers: { ...authorization(), ...headers } };
    if (json !== undefined) {
      options.body = JSON.stringify(json);
      options.headers['content-type'] = 'application/json';
    }
    const used = key();
    let response;
    try {
      response = await fetch(address(path), options);
    } catch (error) {
      if (signal?.aborted) throw error;
      reportConnection(false);
      throw new ApiError(0, 'unreachable', 'the server is not responding');
    }
    reportConnection(true);
    if (isUnauthenticated(response.status, response.headers.get('content-type'))) {
      // The user may have entered a key while this request was in flight.
      if (used !== key() || (await requestKey(used))) continue;
    }
    if (response.ok) return response;
    // A rate limit rejects before anything is done; other methods than GET may have taken effect before a 503.
    const retryAfter = Number(response.headers.get('retry-after')) || 0;
    const isTemporary = response.status === 429 || (response.status === 503 && method === 'GET');
    const mayRetry = retryAfter > 0 && retryAfter <= MAX_RETRY_AFTER && tries < MAX_TRIES && !signal?.aborted;
    if (isTemporary && mayRetry) {
      await new Promise((resolve) => setTimeout(resolve, retryAfter * 1000));
      continue;
    }
    throw problemOf(response.status, await response.text());
  }
}

export async function get(path, signal) {
  return (await request(path, { signal })).json();
}

export async function post(path, json = {}, headers = {}) {
  return (await request(path, { method: 'POST', json, headers })).json();
}

/** Returns every item of a list, fetched in batches. */
export async function getAll(path, { signal, limit = 500 } = {}) {
  const items = [];
  let cursor;
  do {
    const join = path.includes('?') ? '&' : '?';
    const batch = await get(`${path}${join}${query({ limit, cursor }).slice(1)}`, signal);
    items.push(...batch.items);
    cursor = batch.next;
  } while (cursor);
  return items;
}
