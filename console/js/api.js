// The HTTP API: requests with the caller's key, answers as values, errors as what the server says.

const KEPT = 'everypage.key';
const MOST_TRIES = 4;
/** In seconds; who is told to wait longer is told so. */
const LONGEST_PAUSE = 10;

/** An answer that is no success, by its problem document; `status` 0 where nobody answered. */
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

let base = '';
let askForKey = async () => false;

/** Where the API is: the console's own origin, unless config.json names another. */
export async function configure(ask) {
  askForKey = ask;
  const answer = await fetch('config.json');
  const config = answer.ok ? await answer.json() : {};
  base = (config.api ?? '').replace(/\/+$/, '');
}

// The key lives as long as the tab, and nowhere else.
export const key = () => sessionStorage.getItem(KEPT);
export const setKey = (value) => (value ? sessionStorage.setItem(KEPT, value) : sessionStorage.removeItem(KEPT));

/** Whether the server answered the last time; the frame shows when it does not. */
export const tell = (answers) => dispatchEvent(new CustomEvent('everypage:answers', { detail: answers }));

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
    return new ApiError(status, '', `the server answered ${status}`);
  }
}

/** Nobody the server knows. API Gateway refuses a wrong key itself, with 403 and no problem document. */
export const isUnknown = (status, type) =>
  status === 401 || (status === 403 && !type?.startsWith('application/problem+json'));

/** One request. A caller who is not known is asked for a key, and the request is made again. */
export async function request(path, { method = 'GET', json, headers = {}, signal } = {}) {
  for (let asked = 1; ; asked += 1) {
    const options = { method, signal, headers: { ...authorization(), ...headers } };
    if (json !== undefined) {
      options.body = JSON.stringify(json);
      options.headers['content-type'] = 'application/json';
    }
    const used = key();
    let answer;
    try {
      answer = await fetch(address(path), options);
    } catch (error) {
      if (signal?.aborted) throw error;
      tell(false);
      throw new ApiError(0, 'unreachable', 'the server does not answer');
    }
    tell(true);
    if (isUnknown(answer.status, answer.headers.get('content-type'))) {
      // Somebody may have given a key while this request was out.
      if (used !== key() || (await askForKey(used))) continue;
    }
    if (answer.ok) return answer;
    // Too much at once, or a moment's trouble: the server says when to come back. What was not done may be asked for again.
    const pause = Number(answer.headers.get('retry-after')) || 0;
    const isPassing = answer.status === 429 || (answer.status === 503 && method === 'GET');
    if (isPassing && pause > 0 && pause <= LONGEST_PAUSE && asked < MOST_TRIES && !signal?.aborted) {
      await new Promise((resolve) => setTimeout(resolve, pause * 1000));
      continue;
    }
    throw problemOf(answer.status, await answer.text());
  }
}

export async function get(path, signal) {
  return (await request(path, { signal })).json();
}

export async function post(path, json = {}, headers = {}) {
  return (await request(path, { method: 'POST', json, headers })).json();
}

/** Every item of a listing, piece by piece. */
export async function all(path, { signal, limit = 500 } = {}) {
  const items = [];
  let cursor;
  do {
    const join = path.includes('?') ? '&' : '?';
    const piece = await get(`${path}${join}${query({ limit, cursor }).slice(1)}`, signal);
    items.push(...piece.items);
    cursor = piece.next;
  } while (cursor);
  return items;
}
