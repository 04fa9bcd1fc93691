// What was bought or is being bought, and how far each purchase came.

import { h, setText } from '../dom.js';
import { count, exactTime, price } from '../format.js';
import { badge, fact, facts, setBadge } from '../parts.js';
import { PURCHASE, STEP, STEP_STATE } from '../words.js';
import { list } from './list.js';

export const purchases = (signal) =>
  list(
    {
      path: '/v1/account/purchases',
      title: 'Purchases',
      columns: [['Time'], ['State'], ['Credits', 'number'], ['Price', 'number']],
      key: (purchase) => purchase.id,
      row,
      update,
      // Few, so that the ledger below stays in sight.
      piece: 10,
      none: 'Nothing was bought yet.',
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

/** Elements stay: who has opened the steps goes on reading them. */
function update(element, purchase) {
  const [state, reason, steps] = element.children[1].children;
  setBadge(state, PURCHASE[purchase.state]);
  setText(reason, purchase.reason ?? '');
  reason.hidden = !purchase.reason;
  const now = JSON.stringify(purchase);
  if (now === element.shown) return;
  element.shown = now;
  steps.lastChild.replaceChildren(
    facts(
      ...purchase.steps.map(({ step, state, reason }) =>
        fact(STEP[step].name, `${STEP_STATE[state].sign} ${STEP_STATE[state].name}${reason ? `: ${reason}` : ''}`),
      ),
      purchase.ended_at && fact('Ended', exactTime(purchase.ended_at)),
      fact('Bought by', purchase.by),
      fact('Id', h('code', {}, purchase.id)),
    ),
  );
}
