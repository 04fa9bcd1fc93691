// Buying credits: how many and by what, with the price in sight before anything is asked for.

import { post } from '../api.js';
import { openDialog } from '../dialogs.js';
import { h, setText } from '../dom.js';
import { count, plural, price } from '../format.js';
import { field } from '../parts.js';

const USUAL = 1000;
/** An account holds no more. */
const MOST = 1_000_000_000_000;
const LONGEST_METHOD = 500;

/** In millionths of a dollar, as the server counts: whole cents, and never less than the credits are worth. */
const priceOf = (credits, each) => Math.ceil(credits * each * 100 - 1e-6) * 10_000;

/** Over plain HTTP browsers have no `crypto.randomUUID`. */
const freshKey = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');

/** Asks how many, and buys them. Gives the purchase, if there is one. */
export function buy(each) {
  const credits = h('input', { type: 'number', min: 1, max: MOST, step: 1, value: USUAL, required: true });
  const method = h('input', { maxlength: LONGEST_METHOD, autocomplete: 'off', spellcheck: 'false' });
  const costs = h('output', { class: 'big' });
  const say = () => {
    const number = Number(credits.value);
    setText(
      costs,
      credits.validity.valid
        ? `${plural(number, 'credit')} for ${price(priceOf(number, each))}`
        : `A whole number, from 1 to ${count(MOST)}`,
    );
  };
  credits.addEventListener('input', say);
  say();
  // One name for all that is asked for from here: however often, it is bought once.
  let key = freshKey();
  return openDialog({
    title: 'Buy credits',
    action: 'Buy',
    body: [
      field('Credits', credits, `One is one page read by AI, ${price(each * 1e6)} each.`),
      field(
        'Payment method (optional)',
        method,
        'What the payment service knows a card or account by; its default where nothing is said. Forgotten once it was used.',
      ),
      costs,
    ],
    run: async () => {
      const wish = { credits: Number(credits.value), method: method.value.trim() || undefined };
      try {
        return await post('/v1/account/credits', wish, { 'idempotency-key': key });
      } catch (error) {
        // That one is undone for good; the next try, by another card perhaps, is another purchase.
        if (error.status === 402) key = freshKey();
        if (error.status > 0 && error.status < 500) throw error;
        // It may have been begun: under this name nothing else can be asked for.
        credits.readOnly = method.readOnly = true;
        throw new Error(`${error.message}; try again: it is bought once, however often you ask`);
      }
    },
  });
}
