// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// The page: it gets rows from the server, shows those that the filters want, and keeps what is shown
// in the address.
import { byId, count, h } from "./dom.js";
import { choices, filters, noNamespace, Rows, values, verdicts, wanted } from "./rows.js";
import { List } from "./list.js";
import { every, request } from "./request.js";
import { chain, parts } from "./sums.js";

// The token has begun a session; nobody needs to see it in the address any more.
if (location.search) history.replaceState(null, "", location.pathname + location.hash);

const views = ["requests", "chain", "parts"];
const rows = new Rows();
const list = new List(byId("list"), byId("heads"), open);
let state = read();
let shown = [];
let configured = null;

// ---- What is shown, and the address ----

function read() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const known = ["view", "open", "leases", ...filters];
  return Object.fromEntries(known.map((name) => [name, parameters.get(name) ?? ""]));
}

function write(change, push) {
  Object.assign(state, change);
  const text = new URLSearchParams(Object.entries(state).filter(([, value]) => value)).toString();
  history[push ? "pushState" : "replaceState"](null, "", text ? `#${text}` : location.pathname);
}

function set(change) {
  write(change, false);
  update();
}

window.addEventListener("popstate", () => {
  state = read();
  if (state.view === "parts") configure();
  again();
  openStated();
});

// ---- Drawing: at most once a frame, sums at most once a second and once the list is painted ----

let due = false;
let summed = -Infinity;
let summing = 0;
let busy = false; // sums are being made
let late = false; // and others are due after that

function update() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    draw();
    sumSoon();
  });
}

function sumSoon() {
  clearTimeout(summing);
  summing = setTimeout(sum, Math.max(0, summed + 1000 - performance.now()));
}

// inPieces goes through a generator without keeping the page from anything else for long.
async function inPieces(work) {
  for (;;) {
    const end = performance.now() + 10;
    do {
      const { done, value } = work.next();
      if (done) return value;
    } while (performance.now() < end);
    await new Promise((then) => setTimeout(then));
  }
}

const view = () => (views.includes(state.view) ? state.view : "requests");

function draw() {
  for (const name of views) {
    byId(name).hidden = name !== view();
    const tab = byId(`tab-${name}`);
    tab.setAttribute("aria-selected", name === view());
    tab.tabIndex = name === view() ? 0 : -1;
  }
  const q = byId("q");
  if (q !== document.activeElement && q.value !== state.q) q.value = state.q;
  shown = wanted(rows.all, state);
  list.show(shown);
  const filtered = filters.some((name) => state[name]);
  byId("count").textContent = shown.length < rows.all.length ? `${shown.length.toLocaleString("en")} of ${count(rows.all.length, "request")}`
    : count(rows.all.length, "request");
  byId("clear").hidden = !filtered;
  const leases = byId("leases");
  leases.setAttribute("aria-pressed", String(state.leases === "shown"));
  const newer = byId("newer");
  newer.hidden = !rows.since;
  newer.textContent = `${count(rows.since, "newer request")}: go on`;
  empty(filtered);
}

async function sum() {
  late = busy;
  if (busy) return;
  busy = true;
  summed = performance.now();
  try {
    await choose();
    await sums(view());
  } finally {
    busy = false;
  }
  if (late) sumSoon();
}

function empty(filtered) {
  const element = byId("empty");
  element.hidden = shown.length > 0 || !rows.ready;
  if (element.hidden) return;
  element.replaceChildren(rows.all.length && filtered
    ? h("p", {}, `None of ${count(rows.all.length, "request")} is like that. `,
      h("button", { onclick: clear }, "Clear the filters"))
    : h("p", {}, "No request yet. Every request that would change something appears here as it comes: ",
      h("code", {}, "kubectl create configmap hello"), ", say."));
}

// choose shows what there is to filter by, with how many requests each has.
async function choose() {
  const found = await inPieces(choices([...rows.all], { ...state }));
  for (const button of byId("verdicts").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", state.verdict === button.value);
    button.lastChild.textContent = (found.verdict.get(button.value) ?? 0).toLocaleString("en");
  }
  for (const name of Object.keys(values)) {
    const select = byId(name);
    if (select === document.activeElement && select.options.length > 1) continue; // it may be open
    const counts = found[name];
    if (state[name] && !counts.has(state[name])) counts.set(state[name], 0);
    const items = [...counts].sort(([a], [b]) => (b === noNamespace) - (a === noNamespace) || a.localeCompare(b));
    const key = items.map((item) => item.join(" ")).join("\n") + state[name];
    if (select.key === key) continue;
    select.key = key;
    select.replaceChildren(h("option", { value: "" }, select.title), ...items.slice(0, 1000).map(([value, n]) =>
      h("option", { value, selected: value === state[name] }, `${value} · ${n.toLocaleString("en")}`)));
    select.classList.toggle("set", Boolean(state[name]));
  }
}

async function sums(name) {
  if (name === "requests") return;
  const content = await inPieces(name === "chain"
    ? chain([...shown], (plugin) => set({ view: "requests", plugin }))
    : parts([...shown], configured));
  const section = byId(name);
  if (section.contains(document.activeElement) && section.querySelector("a:focus")) return;
  const scrolled = section.querySelector(".table")?.scrollLeft ?? 0;
  const top = section.scrollTop;
  const focused = document.activeElement?.classList.contains("table") && section.contains(document.activeElement);
  section.replaceChildren(...content.flat());
  const table = section.querySelector(".table");
  if (table) table.scrollLeft = scrolled;
  if (focused) table?.focus();
  section.scrollTop = top;
}

// again draws with the lists of choices and the sums, too.
function again() {
  summed = -Infinity;
  update();
}

// ---- One request ----

const kept = new Map(); // the last ones that were asked for
let asked = "";

function open(id) {
  write({ open: id, view: "" }, !state.open);
  openStated();
  update();
}

function close() {
  write({ open: "" }, false);
  openStated();
  byId("list").focus();
}

async function openStated() {
  const id = state.open;
  const article = byId("request");
  asked = id;
  list.opened = id || null;
  list.active = id || list.active;
  list.draw();
  byId("requests").classList.toggle("split", Boolean(id));
  article.hidden = !id;
  if (!id) return article.replaceChildren();
  let content = kept.get(id);
  if (!content) {
    try {
      const response = await fetch(`decision/${id.split("/").map(encodeURIComponent).join("/")}`);
      content = response.ok ? await response.json() : { problem: await response.text() };
    } catch {
      content = { problem: "The dashboard has ended." };
    }
    if (!content.problem) kept.set(id, content);
    if (kept.size > 50) kept.delete(kept.keys().next().value);
  }
  if (asked !== id) return undefined; // another one by now
  article.replaceChildren(...(content.problem
    ? [h("p", { class: "note" }, content.problem), h("button", { onclick: close }, "Close")]
    : request(content.decision, content.remedies ?? [], close)).flat().filter(Boolean));
  article.scrollTop = 0;
  // If there is room for the request alone, the focus goes to it.
  if (getComputedStyle(byId("list").parentElement).display === "none") article.querySelector("h2")?.focus();
  return undefined;
}

// ---- What the server says ----

function connect() {
  const source = new EventSource("events");
  const on = (name, then) => source.addEventListener(name, (event) => {
    then(event.data ? JSON.parse(event.data) : null);
    update();
  });
  on("state", (s) => {
    tell(s.state, { connecting: "Connecting", live: "Live", waiting: "Reconnecting" }[s.state], s.message);
    byId("state").title = `${s.server}${s.namespace ? `, namespace ${s.namespace}` : ""}, the last ` +
      `${s.limit.toLocaleString("en")} at most`;
    document.title = `${s.namespace ? `${s.namespace} · ` : ""}${new URL(s.server, "https://x").host} · Gatehouse`;
  });
  on("reset", () => rows.reset());
  on("rows", (some) => {
    rows.older(some);
    if (rows.order.length === some.length) summed = -Infinity; // the first ones
  });
  on("ready", () => {
    rows.ready = true;
    summed = -Infinity;
    performance.mark("ready");
  });
  on("added", (some) => rows.newer(some));
  on("gone", (ids) => rows.gone(ids));
  source.addEventListener("error", () => {
    tell("ended", "Disconnected", "The dashboard can’t be reached: it has ended, or asks too much of this machine. " +
      "It is tried again; start gatehouse dashboard again for a new address.");
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(connect, 3000);
    fetch("icon.svg").then(async (response) => {
      if (response.status === 401) tell("ended", "Disconnected", await response.text());
    }, () => {}); // it is said already that there is no connection
  });
}

function tell(name, word, problem) {
  byId("state").className = name;
  byId("state-text").textContent = word;
  const element = byId("problem");
  element.hidden = !problem;
  if (element.textContent !== (problem ?? "")) element.textContent = problem ?? "";
}

async function configure() {
  try {
    const response = await fetch("configured");
    configured = response.ok ? await response.json() : { items: [], missing: [await response.text()] };
  } catch {
    return; // it is said already that there is no connection
  }
  again();
}

// ---- What the user does ----

function show(view) {
  write({ view: view === "requests" ? "" : view }, true); // which Back undoes
  if (view === "parts") configure();
  again();
}

function clear() {
  byId("q").value = "";
  set(Object.fromEntries(filters.map((name) => [name, ""])));
  again();
}

function pause() {
  rows.pause(!rows.held);
  byId("pause").setAttribute("aria-pressed", String(Boolean(rows.held)));
  byId("pause").textContent = rows.held ? "▶ Go on" : "❚❚ Pause";
  again();
}

const themes = ["system", "light", "dark"];
function theme(name) {
  const chosen = themes.includes(name) ? name : "system";
  document.documentElement.dataset.theme = chosen;
  byId("theme").lastChild.textContent = ` ${chosen}`;
  byId("theme").setAttribute("aria-label", `Theme: ${chosen}`);
  localStorage.setItem("theme", chosen);
}
const nextTheme = () => theme(themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length]);

byId("verdicts").append(...Object.keys(verdicts).map((name) =>
  h("button", { type: "button", value: name, class: name.replace(/\W+/g, "-"), "aria-pressed": "false", onclick: () => {
    set({ verdict: state.verdict === name ? "" : name });
    again();
  } }, `${name} `, h("span", { class: "n" }, "0"))));
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("q").addEventListener("input", (event) => set({ q: event.target.value }));
for (const name in values) byId(name).addEventListener("change", (event) => {
  set({ [name]: event.target.value });
  event.target.classList.toggle("set", Boolean(event.target.value));
  again();
});
for (const view of views) byId(`tab-${view}`).addEventListener("click", () => show(view));
document.querySelector("nav").addEventListener("keydown", (event) => {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  const to = views[(views.indexOf(state.view || "requests") + by + views.length) % views.length];
  show(to);
  byId(`tab-${to}`).focus();
});
byId("clear").addEventListener("click", clear);
byId("leases").addEventListener("click", () => {
  set({ leases: state.leases === "shown" ? "" : "shown" });
  again();
});
byId("pause").addEventListener("click", pause);
byId("newer").addEventListener("click", () => {
  pause();
  byId("list").scrollTop = 0;
  byId("list").focus();
});
byId("theme").addEventListener("click", nextTheme);
byId("help").addEventListener("click", () => byId("keys").showModal());

const keys = {
  "/": () => byId("q").select(),
  "?": () => byId("keys").showModal(),
  "1": () => show("requests"),
  "2": () => show("chain"),
  "3": () => show("parts"),
  p: pause,
  x: clear,
  t: nextTheme,
  e: every,
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
  if (event.key === "Escape") {
    if (event.target.closest("#filters")) byId("list").focus();
    else if (state.open) close();
    else return;
    event.preventDefault();
  } else if (event.target === byId("q") && (event.key === "Enter" || event.key === "ArrowDown")) {
    event.preventDefault();
    byId("list").focus();
    if (!list.active || !shown.some((row) => row.id === list.active)) list.move(-Infinity);
  } else if (event.target.matches("input, select")) {
    return;
  } else if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  } else if (["j", "k", "ArrowDown", "ArrowUp", "g", "G"].includes(event.key) && !byId("requests").hidden &&
      !event.target.closest("nav")) {
    byId("list").focus();
    list.key(event);
  }
});

theme(localStorage.getItem("theme"));
draw();
openStated();
connect();
if (state.view === "parts") configure();
