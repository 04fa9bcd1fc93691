// The tenant's credits: balance, purchases and ledger.

import { buy } from '../account/buy.js';
import { ledger } from '../account/ledger.js';
import { purchases } from '../account/purchases.js';
import { get } from '../api.js';
import { button, fact } from '../components.js';
import { h, setText } from '../dom.js';
import { count, plural } from '../format.js';
import { isPending, PURCHASE } from '../labels.js';
import { every } from '../live.js';
import { notice, showError } from '../notices.js';
import { isOperator } from '../session.js';
import { setViewShortcuts } from '../shortcuts.js';

const POLL_INTERVAL = 5000;
/** While a purchase is pending. */
const FAST_POLL_INTERVAL = 1000;

const TOTALS = [
  ['Balance', 'balance'],
  ['Reserved by jobs', 'reserved'],
  ['Available', 'available'],
  ['Pending purchases', 'pending'],
  ['Earned in all', 'earned'],
  ['Spent in all', 'spent'],
];

export async function show(root, _, signal) {
  document.title = 'Account · Everypage';
  let account;
  const totals = h(
    'dl',
    { class: 'totals card', hidden: true },
    TOTALS.map(([label]) => fact(label)),
  );
  const message = h('p', { class: 'message' });
  const buyButton = button('Buy credits', 'account', () => buyCredits().catch(showError), {
    class: 'button primary',
    id: 'buy',
    hidden: true,
  });
  const entries = ledger(signal);
  const bought = purchases(signal);
  root.append(
    h('div', { class: 'head' }, h('h1', {}, 'Account'), h('div', { class: 'actions' }, buyButton)),
    message,
    totals,
    bought.element,
    entries.element,
  );

  async function refresh() {
    [account] = await Promise.all([get('/v1/account', signal), entries.refresh(), bought.refresh()]);
    const { unlimited, price_usd: each } = account;
    setText(message, explanation(account));
    totals.hidden = unlimited;
    TOTALS.forEach(([, name], at) => setText(totals.children[at].lastChild, count(account[name])));
    buyButton.hidden = unlimited || each === undefined || !isOperator();
    // Unused tables are hidden; entries from before a change of the settings stay visible.
    bought.element.hidden = (unlimited || each === undefined) && !bought.items().length;
    entries.element.hidden = unlimited && !entries.items().length;
  }

  async function buyCredits() {
    const purchase = await buy(account.price_usd);
    if (!purchase) return;
    const { phrase, tone } = PURCHASE[purchase.state];
    notice(`${plural(purchase.credits, 'credit')}: ${phrase}`, { tone });
    await refresh();
  }

  await refresh();
  if (!buyButton.hidden) setViewShortcuts([['b', 'Buy credits', () => buyButton.click()]]);
  every(() => (bought.items().some(isPending) ? FAST_POLL_INTERVAL : POLL_INTERVAL), refresh, signal);
}

/** Explains what credits are for and how to get them. */
function explanation({ unlimited, price_usd: each }) {
  if (unlimited) return 'This server does not require credits.';
  const usage =
    'One credit is one page read by AI. A job reserves what it may need and pays for the pages that were read.';
  if (each === undefined) return `${usage} Credits can't be bought here; the operator of this server grants them.`;
  return isOperator() ? usage : `${usage} Operators can buy more.`;
}
