// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// All requests that the page knows of, the newest first, and which of them the filters want.

export class Rows {
  known = new Map(); // by ID
  order = [];
  fresh = []; // what order lacks, the newest last
  stale = false; // order has rows that are gone
  held = null; // what order was when the list was paused
  since = 0; // how many came since
  ready = false;

  reset() {
    this.known.clear();
    this.order = [];
    this.fresh = [];
    this.stale = false;
    this.ready = false;
  }

  // older adds rows that are older than all others, the newest first.
  older(rows) {
    for (const row of rows) {
      this.known.set(row.id, row);
      this.order.push(row);
    }
  }

  // newer adds rows that are newer, the newest last.
  newer(rows) {
    for (const row of rows) {
      this.known.set(row.id, row);
      this.fresh.push(row);
    }
    if (this.held) this.since += rows.length;
  }

  gone(ids) {
    for (const id of ids) this.known.delete(id);
    this.stale = true;
  }

  pause(on) {
    this.held = on ? this.ordered() : null;
    this.since = 0;
  }

  // ordered is what all changes since it was called last have made of the order: a busy server's are
  // many, and each would cost a walk through all rows.
  ordered() {
    if (this.fresh.length) this.order = this.fresh.reverse().concat(this.order);
    this.fresh = [];
    if (this.stale) this.order = this.order.filter((row) => this.known.get(row.id) === row);
    this.stale = false;
    return this.order;
  }

  get all() {
    return this.held ?? this.ordered();
  }
}

// The filters, by their names in the address.
export const filters = ["q", "verdict", "ns", "res", "user", "plugin"];

// failedOpen is whether something failed, and its failurePolicy let the request pass.
export function failedOpen(row) {
  return (row.open ??= (row.steps ?? []).flatMap((step) => step.c ?? []).filter((call) => call.open)).length > 0;
}

// Verdicts one can ask for; Failed open and Changed are among them, since that is what
// one asks.
export const verdicts = {
  Refused: (row) => row.verdict === "Refused",
  Failed: (row) => row.verdict === "Failed",
  "Failed open": failedOpen,
  Changed: (row) => row.changed !== undefined,
  Admitted: (row) => row.verdict === "Admitted",
  "Not found, conflict": (row) => ["NotFound", "Conflict", "AlreadyExists"].includes(row.verdict),
};

// isLeaseUpdate is whether a request only says that a node or a leader is alive.
const isLeaseUpdate = (row) => row.group === "coordination.k8s.io" && row.op === "UPDATE" && row.verdict === "Admitted";

export const noNamespace = "(none)"; // no namespace has parentheses

// values are those of a row by which the select elements filter.
export const values = {
  ns: (row) => [row.ns ?? noNamespace],
  res: (row) => [row.group ? `${row.res}.${row.group}` : row.res],
  user: (row) => [row.user],
  plugin: (row) => (row.by && !row.changed?.includes(row.by) ? [row.by, ...(row.changed ?? [])] : row.changed ?? []),
};

// tests are what the filters that are set want of a row, by their names.
function tests(state) {
  const set = {};
  if (state.leases !== "shown" && !/lease/i.test(`${state.q} ${state.res}`)) set.leases = (row) => !isLeaseUpdate(row);
  for (const [name, of] of Object.entries(values)) {
    if (state[name]) set[name] = (row) => of(row).includes(state[name]);
  }
  if (verdicts[state.verdict]) set.verdict = verdicts[state.verdict];
  const words = (state.q ?? "").toLowerCase().split(/\s+/).filter(Boolean).map((word) =>
    (word.length > 1 && word[0] === "-" ? [word.slice(1), false] : [word, true]));
  if (words.length) set.q = (row) => words.every(([word, wanted]) => text(row).includes(word) === wanted);
  return Object.entries(set);
}

// wanted are the rows that the filters want.
export function wanted(rows, state) {
  const wants = tests(state);
  return wants.length ? rows.filter((row) => wants.every(([, test]) => test(row))) : rows;
}

// choices are what there is to choose from for each filter, with how many rows have it that the
// other filters want: a Map of counts by value, for each filter's name. It is a generator as the sums
// are.
export function* choices(rows, state) {
  const found = Object.fromEntries(["verdict", ...Object.keys(values)].map((name) => [name, new Map()]));
  const wants = tests(state);
  const add = (name, value) => found[name].set(value, (found[name].get(value) ?? 0) + 1);
  const tally = {
    verdict: (row) => {
      for (const name in verdicts) if (verdicts[name](row)) add("verdict", name);
    },
  };
  for (const name in values) {
    tally[name] = (row) => {
      for (const value of values[name](row)) add(name, value);
    };
  }
  const all = Object.values(tally);
  for (const row of rows) {
    yield;
    // Whom one filter alone doesn't want counts for that one.
    let unwanted = "";
    let n = 0;
    for (const [name, test] of wants) {
      if (test(row)) continue;
      unwanted = name;
      if (++n > 1) break;
    }
    if (n === 0) for (const count of all) count(row);
    else if (n === 1) tally[unwanted]?.(row);
  }
  return found;
}

// text is all of a row that is searched, made once.
function text(row) {
  row.text ??= [row.id, row.op, row.group, row.res, row.obj, row.ns, row.user, row.agent, row.verdict, row.code,
    row.msg, row.by, row.changed?.join(" "), row.dry ? "dry run" : "",
    ...(row.steps ?? []).flatMap((step) => (step.c ?? []).map((call) => `${call.conf ?? ""} ${call.name}`)),
  ].join("\n").toLowerCase();
  return row.text;
}
