// What was given up, and why: chosen, weighed, sent back to work or let go.

import { get, query } from '../api.js';
import { h, keyed, setText } from '../dom.js';
import { ago, count, exactTime, plural } from '../format.js';
import { icon } from '../icons.js';
import { inWords, purge, redrive, weigh } from '../letters.js';
import { every, gathered } from '../live.js';
import { notice, trouble } from '../notices.js';
import { button, empty } from '../parts.js';
import { inView } from '../shortcuts.js';

const LOOK = 5000;
/** Letters that one request brings, and rows that are drawn at once. */
const PIECE = 500;
const ROWS = 100;
const WHAT = { page: 'Page', job: 'Document', webhook: 'Webhook', message: 'A message nobody could read' };

export async function show(root, _, signal) {
  document.title = 'Dead letters · Everypage';
  const chosen = new Set();
  let letters = [];
  /** Where the next piece begins, if there is one; where the last one that was read began. */
  let next;
  let last;
  let most = ROWS;

  const body = h('tbody', {});
  const everyBox = h('input', {
    type: 'checkbox',
    'aria-label': 'Select all that are shown',
    onchange: () => selectAll(everyBox.checked).catch(trouble),
  });
  const filter = h('input', {
    type: 'search',
    placeholder: 'Filter by reason, document or job',
    'aria-label': 'Filter by reason, document or job',
    oninput: () => {
      most = ROWS;
      render();
      // What is not read yet may fit as well.
      if (next) inTurn(readAll).catch(trouble);
    },
  });
  const table = h(
    'table',
    { class: 'rows select' },
    h('caption', { class: 'unseen' }, 'Dead letters, oldest first'),
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        h('th', { scope: 'col' }, everyBox),
        ['What', 'Reason', 'Deliveries', 'Priority', 'Given up'].map((name, at) =>
          h('th', { scope: 'col', class: at > 1 ? 'number' : '' }, name),
        ),
      ),
    ),
    body,
  );
  const nothing = h('div', { hidden: true });
  const more = button('Show more', null, () => showMore().catch(trouble), { hidden: true });
  const summary = h('p', { class: 'hint', role: 'status' });
  const cost = h('strong', { id: 'estimate' });
  const redriveButton = button('Redrive', 'redo', () => sendBack().catch(trouble), {
    class: 'button primary',
    id: 'redrive',
  });
  const purgeButton = button('Purge', 'trash', () => letGo().catch(trouble), { class: 'button danger', id: 'purge' });
  const bar = h(
    'div',
    { class: 'choice card' },
    summary,
    cost,
    h('div', { class: 'actions' }, redriveButton, purgeButton),
  );

  root.append(
    h('div', { class: 'head' }, h('h1', {}, 'Dead letters')),
    h(
      'p',
      { class: 'message' },
      'Pages that no worker could finish, and documents that failed. Sent back they make a new version of their result.',
    ),
    h('div', { class: 'bar' }, h('div', { class: 'search' }, icon('search'), filter)),
    bar,
    h('div', { class: 'card flush' }, table, nothing),
    more,
  );

  const visible = () => {
    const text = filter.value.trim().toLowerCase();
    return letters.filter(
      (letter) =>
        !text || `${letter.reason} ${letter.document ?? ''} ${letter.subject.job ?? ''}`.toLowerCase().includes(text),
    );
  };

  function render() {
    const shown = visible();
    keyed(
      body,
      shown.slice(0, most),
      (letter) => letter.id,
      row,
      (element, letter) => {
        element.querySelector('input').checked = chosen.has(letter.id);
        element.classList.toggle('chosen', chosen.has(letter.id));
        setText(element.querySelector('.last time'), ago(letter.last_at));
      },
    );
    more.hidden = shown.length <= most && !next;
    table.hidden = shown.length === 0;
    nothing.hidden = shown.length > 0;
    if (!shown.length)
      nothing.replaceChildren(
        letters.length ? empty('No letter fits.') : empty('No dead letters.', 'Nothing was given up.'),
      );
    everyBox.checked = shown.length > 0 && shown.every(({ id }) => chosen.has(id));
    everyBox.indeterminate = !everyBox.checked && chosen.size > 0;
    bar.hidden = letters.length === 0;
    const known = `${count(letters.length)}${next ? ' or more' : ''}`;
    setText(
      summary,
      chosen.size
        ? `${plural(chosen.size, 'letter')} of ${known} selected`
        : `${known} ${letters.length === 1 && !next ? 'letter' : 'letters'}; select some to send them back`,
    );
    redriveButton.disabled = purgeButton.disabled = chosen.size === 0;
    weighSoon();
  }

  function row(letter) {
    const { subject } = letter;
    const place = subject.page ? `#/jobs/${subject.job}/pages/${subject.page}` : `#/jobs/${subject.job}`;
    const name = subject.page ? `${WHAT.page} ${subject.page}` : (WHAT[subject.kind] ?? subject.kind);
    const what = subject.job ? h('a', { href: place }, name) : name;
    return h(
      'tr',
      {},
      h(
        'td',
        {},
        h('input', {
          type: 'checkbox',
          'aria-label': `Select ${name}${subject.job ? ` of ${letter.document ?? subject.job}` : ''}`,
          onchange: (event) => {
            if (event.target.checked) chosen.add(letter.id);
            else chosen.delete(letter.id);
            render();
          },
        }),
      ),
      h(
        'th',
        { scope: 'row' },
        what,
        letter.document && h('span', { class: 'sub' }, letter.document),
        subject.job && h('span', { class: 'sub mono' }, subject.job),
      ),
      h('td', {}, letter.reason),
      h('td', { class: 'number' }, count(letter.attempts)),
      h('td', { class: 'number' }, letter.priority),
      h('td', { class: 'number last' }, h('time', { datetime: letter.last_at, title: exactTime(letter.last_at) })),
    );
  }

  let weighed = '';
  let weight;
  const weighSoon = gathered(
    200,
    async () => {
      const ids = [...chosen];
      if (ids.join() === weighed) return;
      weighed = ids.join();
      weight = undefined;
      cost.textContent = '';
      if (!ids.length) return;
      try {
        const answer = await weigh(ids);
        if (weighed !== ids.join()) return;
        weight = answer;
        cost.textContent = inWords(answer);
      } catch {
        // A server that can't say what it costs still sends.
      }
    },
    signal,
  );

  async function sendBack() {
    const sent = await redrive([...chosen], weight, signal);
    if (!sent) return;
    sent.redriven.forEach((id) => chosen.delete(id));
    drop(new Set(sent.redriven));
    const bad = sent.failed.length ? `; ${sent.failed.length} could not be: ${sent.failed[0].reason}` : '';
    notice(`${plural(sent.redriven.length, 'letter')} sent back to work${bad}`, { tone: bad ? 'bad' : 'good' });
    await inTurn(readAnew);
  }

  async function letGo() {
    const wanted = [...chosen];
    const gone = await purge(wanted);
    if (gone !== undefined) {
      drop(new Set(wanted));
      notice(`${plural(gone, 'letter')} gone`);
    }
    // Where their number was another one, somebody else was quicker.
    await inTurn(readAnew);
  }

  async function selectAll(isChecked) {
    if (isChecked && next) await inTurn(readAll);
    for (const letter of visible()) isChecked ? chosen.add(letter.id) : chosen.delete(letter.id);
    render();
  }

  async function showMore() {
    most += ROWS;
    if (visible().length < most && next) await inTurn(readOn);
    render();
  }

  // Each builds on what the one before has read.
  let before = Promise.resolve();
  const inTurn = (work) => (before = before.catch(() => {}).then(() => signal.aborted || work()));

  const read = (cursor) => get(`/v1/dlq${query({ limit: PIECE, cursor })}`, signal);

  function put(list, cursor) {
    letters = list;
    next = cursor;
    const known = new Set(letters.map(({ id }) => id));
    for (const id of chosen) if (!known.has(id)) chosen.delete(id);
    render();
  }

  const drop = (ids) => put(letters.filter(({ id }) => !ids.has(id)), next);

  /** Letters that are there already keep their place. */
  function add(piece) {
    const known = new Set(letters.map(({ id }) => id));
    put([...letters, ...piece.items.filter(({ id }) => !known.has(id))], piece.next);
  }

  async function readOn() {
    const cursor = next;
    if (!cursor) return;
    add(await read(cursor));
    last = cursor;
  }

  async function readAll() {
    while (next && !signal.aborted) await readOn();
  }

  /** As much as was read before, from the beginning: what others have sent back is gone then. */
  async function readAnew() {
    const least = letters.length;
    const found = [];
    let from;
    let piece;
    do {
      from = piece?.next;
      piece = await read(from);
      found.push(...piece.items);
    } while (piece.next && found.length < least);
    last = from;
    put(found, piece.next);
  }

  /** The oldest, and behind the end of what was read, where new ones come; what lies between is not read again. */
  async function refresh() {
    const first = await read();
    if (!first.next) {
      last = undefined;
      return put(first.items, undefined);
    }
    const fresh = new Set(first.items.map(({ id }) => id));
    const overlap = letters.findLastIndex(({ id }) => fresh.has(id));
    const rest = overlap < 0 ? [] : letters.slice(overlap + 1);
    if (!rest.length) {
      last = undefined;
      return put(first.items, first.next);
    }
    put([...first.items, ...rest], next);
    if (!next) add(await read(last));
  }

  inView([
    ['a', 'Select all', () => everyBox.click()],
    ['r', 'Redrive what is selected', () => redriveButton.click()],
    ['j', 'Next letter', () => step(1)],
    ['k', 'Letter before', () => step(-1)],
  ]);
  const step = (by) => {
    const boxes = [...body.querySelectorAll('input')];
    boxes[Math.max(0, Math.min(boxes.length - 1, boxes.indexOf(document.activeElement) + by))]?.focus();
  };
  await refresh();
  every(LOOK, () => inTurn(refresh), signal);
}
