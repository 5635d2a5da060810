// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// The page of a report of gatehouse audit or gatehouse replay: its counts, its differences by policy, and a
// table of its results, each with its decision.
import { byId, count, h } from "./dom.js";
import { request } from "./request.js";

// The token has begun a session; nobody needs to see it in the address any more.
if (location.search) history.replaceState(null, "", location.pathname);

const most = 1000; // rows of the table at a time
let report = { rows: [], groups: [], notes: [] };
let opened = -1;

async function get(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

function complain(error) {
  byId("problem").textContent = error.message;
  byId("problem").hidden = false;
}

const nameOf = (group) => `${group.effect}: ${group.policy}`;

// isWanted is whether the filters want a row.
function isWanted(row) {
  const group = byId("group").value;
  if (group && !(row.policies ?? []).some((policy) => `${row.outcome}: ${policy}` === group)) return false;
  row.text ??= Object.values(row).flat().join("\n").toLowerCase();
  return byId("q").value.toLowerCase().split(/\s+/).every((word) => row.text.includes(word));
}

const columns = {
  Audit: [["Result", "outcome"], ["Object", "obj"], ["Namespace", "ns"], ["Owner", "owner"]],
  Replay: [["Result", "outcome"], ["Operation", "op"], ["Object", "obj"], ["Namespace", "ns"], ["User", "user"]],
};

function draw() {
  const wanted = report.rows.map((row, index) => [row, index]).filter(([row]) => isWanted(row));
  const all = report.rows.length + report.omitted;
  byId("count").textContent = `${wanted.length.toLocaleString("en")} of ${count(all, "result")}` +
    (report.omitted ? `; ${count(report.omitted, "other")} can't be shown here` : "") +
    (wanted.length > most ? `; the first ${most.toLocaleString("en")} are shown` : "");
  const of = columns[report.kind];
  byId("results").replaceChildren(
    h("thead", {}, h("tr", {}, of.map(([title]) => h("th", { scope: "col" }, title)),
      h("th", { scope: "col" }, "Why"))),
    h("tbody", {}, wanted.slice(0, most).map(([row, index]) => h("tr", { class: row.outcome },
      of.map(([, name]) => h("td", {}, name === "obj"
        ? h("button", { class: "link", "data-index": index, onclick: () => open(index) }, row.obj) : row[name] ?? "")),
      h("td", { class: "why" }, row.msg ?? "")))));
}

async function open(index) {
  opened = index;
  try {
    const { decision, remedies } = await get(`result/${index}`);
    if (opened !== index) return;
    byId("request").replaceChildren(...request(decision, remedies ?? [], close, false).filter(Boolean));
    byId("request").hidden = false;
    byId("requests").classList.add("split");
    byId("request").querySelector("h2").focus();
  } catch (error) {
    complain(error);
  }
}

function close() {
  byId("request").hidden = true;
  byId("requests").classList.remove("split");
  document.querySelector(`[data-index="${opened}"]`)?.focus();
  opened = -1;
}

function show() {
  document.title = `Gatehouse: ${report.kind.toLowerCase()}`;
  byId("state").textContent = report.kind === "Audit" ? "An audit of objects" : "A replay of requests";
  byId("headline").textContent = report.headline;
  byId("notes").replaceChildren(...report.notes.map((note) => h("li", { class: "note" }, note)));
  byId("group").replaceChildren(h("option", { value: "" }, "All differences"),
    ...report.groups.map((group) => h("option", { value: nameOf(group) }, nameOf(group))));
  byId("groups").replaceChildren(...report.groups.map((group) => h("details", { class: `group ${group.effect}` },
    h("summary", {}, h("b", {}, group.effect), ` ${group.count.toLocaleString("en")} by ${group.policy}`),
    group.expression && h("p", {}, "Violated: ", h("code", {}, group.expression)),
    group.message && h("p", { class: "message" }, group.message),
    group.changes && h("pre", {}, group.changes.join("\n")),
    (group.remedies ?? []).map((remedy) => h("p", {}, "To pass: ", remedy)))));
  draw();
}

byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("q").addEventListener("input", draw);
byId("group").addEventListener("change", draw);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && opened >= 0) close();
});
document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "system";
get("report").then((found) => {
  report = found;
  show();
}).catch(complain);
