// Formats numbers, times and sizes.

const whole = new Intl.NumberFormat('en');
const dollars = new Intl.NumberFormat('en', {
  style: 'currency',
  currency: 'USD',
  minimumFractionDigits: 2,
  maximumFractionDigits: 6,
});
const withSign = new Intl.NumberFormat('en', { signDisplay: 'exceptZero' });
const clock = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
});
const date = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric' });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });

export const count = (number) => whole.format(number);

/** A change, with its plus or minus sign. */
export const signed = (number) => withSign.format(number);

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** Formats millionths of a dollar; the smaller the amount, the more decimals. */
export function money(micro) {
  const dollars = micro / 1e6;
  if (dollars === 0) return '$0';
  if (dollars >= 1) return `$${dollars.toFixed(2)}`;
  if (dollars < 0.0001) return '< $0.0001';
  return `$${dollars.toFixed(dollars < 0.01 ? 4 : 3)}`;
}

/** Formats a price in millionths of a dollar: to the cent, with more digits where it has them. */
export const price = (micro) => dollars.format(micro / 1e6);

export function duration(ms) {
  if (ms < 0) ms = 0;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return seconds % 60 ? `${minutes} min ${seconds % 60} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} days`;
}

export function bytes(number) {
  if (number === undefined) return '';
  if (number < 1000) return `${number} bytes`;
  const units = ['kB', 'MB', 'GB'];
  let value = number / 1000;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/** The time of day, with the date when it is not the same day as `near`. */
export function timeOfDay(time, near = time) {
  const at = new Date(time);
  const isSameDay = at.toDateString() === new Date(near).toDateString();
  return isSameDay ? clock.format(at) : `${date.format(at)}, ${clock.format(at)}`;
}

export const exactTime = (time) => full.format(new Date(time));

/** With the first letter in upper case. */
export const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

/** Elapsed time, in one unit. */
export function ago(time, now = Date.now()) {
  const seconds = Math.floor((now - new Date(time).getTime()) / 1000);
  if (seconds < 5) return 'just now';
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} days ago`;
}

/** Milliseconds from `from` to `to`, or to now when `to` is missing. */
export const between = (from, to) => (to ? new Date(to).getTime() : Date.now()) - new Date(from).getTime();
