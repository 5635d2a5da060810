// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

import { count, h, took } from "./dom.js";

// What many requests together say of the chain, and of the webhooks and policies in it. The sums are
// generators, which have nothing to give before their end: they yield so that the page can do what
// else there is.

function percentile(sorted, p) {
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * p) - 1)] : 0;
}

class Sum {
  times = [];
  total = 0;
  counts = { Refused: 0, Failed: 0, Skipped: 0, open: 0, changed: 0 };

  add(item) {
    if (item.v !== "Skipped") {
      this.times.push(item.t ?? 0);
      this.total += item.t ?? 0;
    }
    if (item.open) this.counts.open++;
    if (item.v || item.open) this.counts[item.open ? "Failed" : item.v]++;
    if (item.n) this.counts.changed++;
  }

  end() {
    const times = Float64Array.from(this.times).sort(); // which needs no function that compares
    this.calls = times.length;
    this.p50 = percentile(times, 0.5);
    this.p99 = percentile(times, 0.99);
    this.max = times.at(-1) ?? 0;
    return this;
  }
}

// phase is a step's, M or V.
const phase = (step) => step.ph ?? "M";
const isSame = (a, b) => a.p === b.p && phase(a) === phase(b);

// order merges the orders in which requests went through plugins into one: a plugin that a request
// has besides is put behind the one before it.
function* order(rows) {
  const ways = []; // the steps of a request of each way, the most frequent ones mostly in front
  for (const { steps } of rows) {
    yield;
    if (!steps) continue;
    const at = ways.findIndex((way) => way.length === steps.length && way.every((step, i) => isSame(step, steps[i])));
    if (at < 0) ways.push(steps);
    else if (at > 0) ways.splice(at - 1, 2, ways[at], ways[at - 1]);
  }
  const merged = [];
  for (const way of ways.sort((a, b) => b.length - a.length)) {
    let at = -1;
    for (const step of way) {
      const found = merged.findIndex((known) => isSame(known, step));
      if (found < 0) merged.splice(++at, 0, step);
      else at = Math.max(at, found);
    }
  }
  return merged;
}

// chain is the view of all plugins, in order.
export function* chain(rows, pick) {
  const sums = { M: new Map(), V: new Map() };
  let total = 0;
  let refusals = 0;
  for (const row of rows) {
    yield;
    for (const step of row.steps ?? []) {
      const phaseSums = sums[phase(step)];
      let sum = phaseSums.get(step.p);
      if (!sum) phaseSums.set(step.p, (sum = new Sum()));
      sum.add(step);
      total += step.t;
      if (step.v === "Refused") refusals++;
    }
  }
  const items = [];
  for (const step of yield* order(rows)) {
    yield;
    const sum = sums[phase(step)].get(step.p).end();
    items.push({ phase: step.ph ? "Validate" : "Mutate", name: step.p, sum,
      time: total ? sum.total / total : 0, refused: refusals ? sum.counts.Refused / refusals : 0 });
  }
  return [
    h("p", { class: "lead" }, `${count(rows.length, "request")}: ${took(total)} in the chain, ` +
      `${count(refusals, "refusal")} by plugins. In the order in which they run.`),
    table("Plugins", [
      ["Plugin", (i) => h("a", { href: "#", onclick: (event) => (event.preventDefault(), pick(i.name)),
        title: "The requests that it changed or refused" }, i.name), "name"],
      ["Calls", (i) => i.sum.calls.toLocaleString("en"), "number"],
      ["Share of time", (i) => share(i.time, "time"), "share"],
      ["Share of refusals", (i) => share(i.refused, "refusals"), "share"],
      ["Refused", (i) => some(i.sum.counts.Refused, "Refused", "✗"), "number"],
      ["Failed", (i) => some(i.sum.counts.Failed, "Failed", "!"), "number"],
      ["Changed", (i) => some(i.sum.counts.changed, "changed", "±"), "number"],
      ["p50", (i) => took(i.sum.p50), "number"],
      ["p99", (i) => took(i.sum.p99), "number"],
      ["Slowest", (i) => took(i.sum.max), "number"],
    ], items, (i) => i.phase, { Mutate: "Mutating phase", Validate: "Validating phase" }),
  ];
}

// parts is the view of what users configure: webhooks, policies, quotas, LimitRanges. Those that are
// configured and had no part in any request are there, too: they never match, or never did yet.
export function* parts(rows, configured) {
  const items = new Map();
  const item = (kind, name, configuration) => {
    const key = `${kind}\n${configuration ?? ""}\n${name}`;
    if (!items.has(key)) items.set(key, { kind, name, configuration, sum: new Sum() });
    return items.get(key);
  };
  for (const c of configured?.items ?? []) item(c.kind, c.name, c.configuration).set = c;
  for (const row of rows) {
    yield;
    for (const step of row.steps ?? []) {
      for (const call of step.c ?? []) item(call.k, call.name, call.conf).sum.add(call);
    }
  }
  const kinds = ["Webhook", "Policy", "Quota", "LimitRange"];
  const all = [...items.values()];
  for (const i of all) {
    yield;
    i.sum.end();
    i.asked = i.sum.calls + i.sum.counts.Skipped;
  }
  all.sort((a, b) => kinds.indexOf(a.kind) - kinds.indexOf(b.kind) || b.sum.total - a.sum.total ||
    `${a.configuration}${a.name}`.localeCompare(`${b.configuration}${b.name}`));
  const never = all.filter((i) => !i.asked).length;
  const problems = [...(configured?.notCalled ?? []).map(notCalled), ...(configured?.missing ?? [])];
  if (!all.length) {
    return [h("p", { class: "lead" }, "No webhook, policy, quota or LimitRange had a part in these requests, and no " +
      "webhook or policy is configured that you may see."), problems.map((p) => h("p", { class: "note" }, p))];
  }
  return [
    h("p", { class: "lead" }, `${count(rows.length, "request")}, ${count(all.length, "webhook, policy, quota and " +
      "LimitRange", "webhooks, policies, quotas and LimitRanges")}. ` +
      (never ? `${count(never, "is", "are")} configured and had no part in any of these requests.` : "")),
    problems.map((p) => h("p", { class: "note" }, p)),
    table("Webhooks and policies", [
      ["Name", (i) => [i.name, i.configuration && h("small", {}, ` of ${i.configuration}`), unused(i)], "name"],
      ["Calls", (i) => i.sum.calls.toLocaleString("en"), "number"],
      ["Skipped", (i) => some(i.sum.counts.Skipped, "Skipped", "–"), "number"],
      ["Refused", (i) => some(i.sum.counts.Refused, "Refused", "✗"), "number"],
      ["Errors", (i) => some(i.sum.counts.Failed, "Failed", "!"), "number"],
      ["Failed open", (i) => some(i.sum.counts.open, "open", "⚠"), "number"],
      ["Changed", (i) => some(i.sum.counts.changed, "changed", "±"), "number"],
      ["On failure", (i) => i.set?.failurePolicy ?? "", ""],
      ["p50", (i) => (i.sum.calls ? took(i.sum.p50) : ""), "number"],
      ["p99", (i) => (i.sum.calls ? took(i.sum.p99) : ""), "number"],
      ["Slowest", (i) => (i.sum.calls ? took(i.sum.max) : ""), "number"],
    ], all, (i) => i.kind, { Webhook: "Webhooks", Policy: "Policies", Quota: "Quotas", LimitRange: "LimitRanges" }),
  ];
}

// notCalled says why the server doesn't call a webhook's backend.
function notCalled(backend) {
  const name = backend.server && !backend.address.startsWith(`${backend.server}:`) ? ` (${backend.server})` : "";
  return `⚠ The server doesn't call the webhook at ${backend.address}${name} since ` +
    `${new Date(backend.since).toLocaleString("en-GB")}: ${backend.why}. It tries to connect every second. ` +
    `${count(backend.callsNotMade, "call was", "calls were")} not made.`;
}

function unused(item) {
  if (item.asked) return null;
  const why = item.set?.bindings === 0 ? "never evaluated: it has no binding" : "never matched";
  return h("span", { class: "tag" }, why);
}

const some = (n, kind, mark) => (n ? h("span", { class: kind }, h("span", { class: "mark" }, mark),
  n.toLocaleString("en")) : h("span", { class: "none" }, "0"));

function share(part, kind) {
  const bar = h("i", { class: kind });
  bar.style.width = `${100 * part}%`;
  if (!part) return h("span", { class: "none" }, "–");
  return [h("span", { class: "bar", "aria-hidden": "true" }, bar),
    h("span", {}, part < 0.001 ? "< 0.1 %" : `${(100 * part).toFixed(part < 0.1 ? 1 : 0)} %`)];
}

function table(title, columns, items, group, titles) {
  const body = [];
  let last = null;
  for (const item of items) {
    if (group(item) !== last) {
      last = group(item);
      body.push(h("tr", { class: "group" }, h("th", { colspan: columns.length, scope: "rowgroup" }, titles[last] ?? last)));
    }
    body.push(h("tr", {}, columns.map(([name, cell, kind], i) =>
      h(i ? "td" : "th", { class: kind, scope: i ? null : "row", "data-title": name }, cell(item)))));
  }
  return h("div", { class: "table", tabindex: "0", role: "region", "aria-label": title }, h("table", {},
    h("thead", {}, h("tr", {}, columns.map(([name, , kind]) => h("th", { class: kind, scope: "col" }, name)))),
    h("tbody", {}, body)));
}
