// The tenant's credits: what there is, where it went, and buying more.

import { buy } from '../account/buy.js';
import { ledger } from '../account/ledger.js';
import { purchases } from '../account/purchases.js';
import { get } from '../api.js';
import { h, setText } from '../dom.js';
import { count, plural } from '../format.js';
import { every } from '../live.js';
import { notice, trouble } from '../notices.js';
import { button, fact } from '../parts.js';
import { isOperator } from '../session.js';
import { inView } from '../shortcuts.js';
import { isMoving, PURCHASE } from '../words.js';

const LOOK = 5000;
/** While a purchase is on its way. */
const LOOK_OFTEN = 1000;

const FIGURES = [
  ['Balance', 'balance'],
  ['Held by jobs', 'reserved'],
  ['Available', 'available'],
  ['Being bought', 'ordered'],
];

export async function show(root, _, signal) {
  document.title = 'Account · Everypage';
  let account;
  const figures = h(
    'dl',
    { class: 'sums card', hidden: true },
    FIGURES.map(([name]) => fact(name)),
  );
  const message = h('p', { class: 'message' });
  const buyButton = button('Buy credits', 'account', () => buyMore().catch(trouble), {
    class: 'button primary',
    id: 'buy',
    hidden: true,
  });
  const entries = ledger(signal);
  const bought = purchases(signal);
  root.append(
    h('div', { class: 'head' }, h('h1', {}, 'Account'), h('div', { class: 'actions' }, buyButton)),
    message,
    figures,
    bought.element,
    entries.element,
  );

  async function refresh() {
    [account] = await Promise.all([get('/v1/account', signal), entries.refresh(), bought.refresh()]);
    const { unlimited, price_usd: each } = account;
    setText(message, sentence(account));
    figures.hidden = unlimited;
    FIGURES.forEach(([, name], at) => setText(figures.children[at].lastChild, count(account[name])));
    buyButton.hidden = unlimited || each === undefined || !isOperator();
    // Books that nobody keeps need not be shown; those of an earlier time stay readable.
    bought.element.hidden = (unlimited || each === undefined) && !bought.items().length;
    entries.element.hidden = unlimited && !entries.items().length;
  }

  async function buyMore() {
    const purchase = await buy(account.price_usd);
    if (!purchase) return;
    const { says, tone } = PURCHASE[purchase.state];
    notice(`${plural(purchase.credits, 'credit')}: ${says}`, { tone });
    await refresh();
  }

  await refresh();
  if (!buyButton.hidden) inView([['b', 'Buy credits', () => buyButton.click()]]);
  every(() => (bought.items().some(isMoving) ? LOOK_OFTEN : LOOK), refresh, signal);
}

/** What credits are for, and how to come by them. */
function sentence({ unlimited, price_usd: each }) {
  if (unlimited) return 'No credits are needed here: pages are read by AI without paying for each.';
  const what = 'One credit is one page read by AI. A job holds what it may need and pays for what was read.';
  if (each === undefined) return `${what} None can be bought here; whoever runs this server gives them.`;
  return isOperator() ? what : `${what} An operator buys them.`;
}
