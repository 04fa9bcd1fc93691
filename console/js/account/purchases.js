// Purchases of credits, with the state of each step.

import { badge, fact, facts, setBadge } from '../components.js';
import { h, setText } from '../dom.js';
import { count, exactTime, price } from '../format.js';
import { PURCHASE, STEP, STEP_STATE } from '../labels.js';
import { table } from './table.js';

export const purchases = (signal) =>
  table(
    {
      path: '/v1/account/purchases',
      title: 'Purchases',
      columns: [['Time'], ['State'], ['Credits', 'number'], ['Price', 'number']],
      key: (purchase) => purchase.id,
      row,
      update,
      // Few, so that the ledger below stays visible.
      batchSize: 10,
      emptyText: 'No purchases yet.',
    },
    signal,
  );

const row = (purchase) =>
  h(
    'tr',
    {},
    h('th', { scope: 'row' }, h('time', { datetime: purchase.created_at }, exactTime(purchase.created_at))),
    h(
      'td',
      {},
      badge(PURCHASE[purchase.state]),
      h('p', { class: 'reason' }),
      h('details', {}, h('summary', {}, 'Steps'), h('div', {})),
    ),
    h('td', { class: 'number' }, count(purchase.credits)),
    h('td', { class: 'number' }, price(purchase.price_micro_usd)),
  );

/** Updates in place, so that opened steps stay open. */
function update(element, purchase) {
  const [state, reason, steps] = element.children[1].children;
  setBadge(state, PURCHASE[purchase.state]);
  setText(reason, purchase.reason ?? '');
  reason.hidden = !purchase.reason;
  const version = JSON.stringify(purchase);
  if (version === element.version) return;
  element.version = version;
  steps.lastChild.replaceChildren(
    facts(
      ...purchase.steps.map(({ step, state, reason }) =>
        fact(STEP[step].name, `${STEP_STATE[state].symbol} ${STEP_STATE[state].name}${reason ? `: ${reason}` : ''}`),
      ),
      purchase.ended_at && fact('Ended', exactTime(purchase.ended_at)),
      fact('Bought by', purchase.by),
      fact('ID', h('code', {}, purchase.id)),
    ),
  );
}
