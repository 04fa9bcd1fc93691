// The dialog for buying credits. It shows the price before anything is bought.

import { post } from '../api.js';
import { field } from '../components.js';
import { openDialog } from '../dialogs.js';
import { h, setText } from '../dom.js';
import { count, plural, price } from '../format.js';

const DEFAULT_CREDITS = 1000;
/** The limit of an account. */
const MAX_CREDITS = 1_000_000_000_000;
const MAX_METHOD_LENGTH = 500;

/** In millionths of a dollar, calculated as the server does: rounded up to whole cents. */
const priceOf = (credits, each) => Math.ceil(credits * each * 100 - 1e-6) * 10_000;

/** Over plain HTTP, browsers have no `crypto.randomUUID`. */
const newKey = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');

/** Asks for the number of credits and buys them. Returns the purchase, or undefined when the dialog was cancelled. */
export function buy(each) {
  const credits = h('input', {
    type: 'number',
    min: 1,
    max: MAX_CREDITS,
    step: 1,
    value: DEFAULT_CREDITS,
    required: true,
  });
  const method = h('input', { maxlength: MAX_METHOD_LENGTH, autocomplete: 'off', spellcheck: 'false' });
  const total = h('output', { class: 'big' });
  const showTotal = () => {
    const number = Number(credits.value);
    setText(
      total,
      credits.validity.valid
        ? `${plural(number, 'credit')} for ${price(priceOf(number, each))}`
        : `Enter a whole number from 1 to ${count(MAX_CREDITS)}`,
    );
  };
  credits.addEventListener('input', showTotal);
  showTotal();
  // One idempotency key for all requests of this dialog: however often they are sent, one purchase is made.
  let key = newKey();
  return openDialog({
    title: 'Buy credits',
    action: 'Buy',
    body: [
      field('Credits', credits, `One credit is one page read by AI, ${price(each * 1e6)} each.`),
      field(
        'Payment method (optional)',
        method,
        "The payment service's id of a card or account. Empty for its default. Deleted after use.",
      ),
      total,
    ],
    run: async () => {
      const order = { credits: Number(credits.value), method: method.value.trim() || undefined };
      try {
        return await post('/v1/account/credits', order, { 'idempotency-key': key });
      } catch (error) {
        // The declined purchase was rolled back: another payment method makes a new purchase.
        if (error.status === 402) key = newKey();
        if (error.status > 0 && error.status < 500) throw error;
        // The purchase may have started: under this key, the order must not change.
        credits.readOnly = method.readOnly = true;
        throw new Error(`${error.message}; retry: the credits are bought only once`);
      }
    },
  });
}
