// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Elements, made without HTML text: nothing that a request contained can become a part of the page.

// h makes an element. Properties that begin with on are listeners, the others attributes, unless
// they are false or absent.
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

export const byId = (id) => document.getElementById(id);

// took is a number of microseconds as people read it.
export function took(us) {
  us = Math.round(us);
  if (us < 1) return "< 1 µs";
  if (us < 1000) return `${us} µs`;
  if (us < 9_950) return `${(us / 1000).toFixed(1)} ms`;
  if (us < 999_500) return `${Math.round(us / 1000)} ms`;
  if (us < 9_950_000) return `${(us / 1e6).toFixed(1)} s`;
  return `${Math.round(us / 1e6)} s`;
}

// micro is Go's notation of a duration, as 1m2.5s or 350µs, in microseconds.
export function micro(duration) {
  const unit = { ns: 1e-3, µs: 1, us: 1, ms: 1e3, s: 1e6, m: 6e7, h: 3.6e9 };
  let sum = 0;
  for (const [, number, name] of (duration ?? "").matchAll(/([\d.]+)(ns|µs|us|ms|s|m|h)/g)) sum += number * unit[name];
  return sum;
}

const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23",
});
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

// time is when something was, in microseconds since 1970, to the millisecond; with the day, unless
// it was today.
export function time(us) {
  const date = new Date(us / 1000);
  const text = clock.format(date);
  return date.toDateString() === new Date().toDateString() ? text : `${day.format(date)} ${text}`;
}

export const count = (n, one, many = one + "s") => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

// marks tell verdicts apart without colour.
export const marks = { Admitted: "✓", Refused: "✗", Failed: "!", Skipped: "–", NotFound: "·", Conflict: "·",
  AlreadyExists: "·" };
