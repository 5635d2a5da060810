// All requests that the page knows of, the newest first, and which of them the filters want.

export class Rows {
  known = new Map(); // by ID
  order = [];
  held = null; // what order was when the list was paused
  since = 0; // how many came since
  ready = false;

  reset() {
    this.known.clear();
    this.order = [];
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
    for (const row of rows) this.known.set(row.id, row);
    this.order = rows.reverse().concat(this.order);
    if (this.held) this.since += rows.length;
  }

  gone(ids) {
    for (const id of ids) this.known.delete(id);
    this.order = this.order.filter((row) => this.known.get(row.id) === row);
  }

  pause(on) {
    this.held = on ? this.order : null;
    this.since = 0;
  }

  get all() {
    return this.held ?? this.order;
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
};

export const noNamespace = "(none)"; // no namespace has parentheses

// values are those of a row by which the select elements filter.
export const values = {
  ns: (row) => [row.ns ?? noNamespace],
  res: (row) => [row.group ? `${row.res}.${row.group}` : row.res],
  user: (row) => [row.user],
  plugin: (row) => (row.by && !row.changed?.includes(row.by) ? [row.by, ...(row.changed ?? [])] : row.changed ?? []),
};

// matcher is whether a row is wanted, by all filters but those left out.
export function matcher(state, ...except) {
  const tests = [];
  for (const [name, of] of Object.entries(values)) {
    if (state[name] && !except.includes(name)) tests.push((row) => of(row).includes(state[name]));
  }
  if (state.verdict && !except.includes("verdict")) tests.push(verdicts[state.verdict] ?? (() => true));
  const words = (state.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  for (const word of words) {
    if (word.length > 1 && word[0] === "-") tests.push((row) => !text(row).includes(word.slice(1)));
    else tests.push((row) => text(row).includes(word));
  }
  return (row) => tests.every((test) => test(row));
}

// text is all of a row that is searched, made once.
function text(row) {
  row.text ??= [row.id, row.op, row.group, row.res, row.obj, row.ns, row.user, row.agent, row.verdict, row.code,
    row.msg, row.by, row.changed?.join(" "), row.dry ? "dry run" : "",
    ...(row.steps ?? []).flatMap((step) => (step.c ?? []).map((call) => `${call.conf ?? ""} ${call.name}`)),
  ].join("\n").toLowerCase();
  return row.text;
}
