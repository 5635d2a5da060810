// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

import { count, h, marks, micro, time, took } from "./dom.js";
import { diff, fields, Known } from "./diff.js";

// request is one decision's page: what it came to, and its way through the chain. kept is whether a server
// keeps the decision.
export function request(decision, remedies, close, kept = true) {
  const r = decision.request;
  const total = micro(decision.duration);
  const steps = (decision.steps ?? []).map((step) => ({ ...step, took: micro(step.duration) }));
  const chain = (phase) => steps.filter((step) => step.phase === phase).reduce((sum, step) => sum + step.took, 0);
  const name = r.name || (r.generateName && `${r.generateName}…`);
  return [
    h("header", { class: decision.verdict },
      h("div", { class: "line" },
        h("span", { class: "badge" }, h("span", { class: "mark", "aria-hidden": "true" }, marks[decision.verdict]),
          decision.verdict),
        h("h2", { tabindex: "-1" }, `${r.operation} ${[r.resource, name, r.subresource].filter(Boolean).join("/")}`),
        r.dryRun && h("span", { class: "tag" }, "dry run"),
        h("button", { class: "close", onclick: close, "aria-label": "Close (Esc)", title: "Close (Esc)" }, "✕")),
      h("p", { class: "summary" }, sentence(decision)),
      decision.message && h("blockquote", {}, decision.message),
      remedies.length > 0 && h("dl", { class: "pass" }, h("dt", {}, "To pass"), remedies.map((remedy) =>
        h("dd", {}, remedy.words, remedy.command && h("code", {}, remedy.command)))),
      facts(decision, total, kept)),
    h("h3", {}, "Its way through the chain ", steps.length > 0 && h("button", { id: "every", onclick: every }, "Show all")),
    shares(total, chain("Mutate"), chain("Validate")),
    steps.length ? picture(steps) : h("p", { class: "note" }, "No plugin had a part in it."),
    decision.omittedSteps > 0 && h("p", { class: "note" },
      `${count(decision.omittedSteps, "more step")} aren’t kept.`),
    kept && h("p", { class: "note also" }, "Also: ", h("code", {},
      `kubectl get decision ${decision.metadata.name} -n ${decision.metadata.namespace} -o yaml`)),
  ];
}

// sentence says the most important thing first.
function sentence(d) {
  const changed = d.changedBy?.length ? `${list(d.changedBy)} changed the object. ` : "";
  const answer = d.code ? `${d.code}${d.reason ? ` ${d.reason}` : ""}` : "no answer";
  if (d.verdict === "Admitted") return changed ? `Admitted. ${changed}` : "Admitted as it was sent.";
  const word = d.verdict === "Refused" ? "Refused" : "Failed";
  return `${word} by ${d.by || "the API itself, and no plugin"} (${answer}). ${changed}`;
}

const list = (names) => (names.length < 2 ? names.join() : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`);

function facts(d, total, kept) {
  const r = d.request;
  const rows = [
    kept && ["When", h("time", { datetime: d.time }, time(Date.parse(d.time) * 1000))],
    ["Took", took(total)],
    r.namespace && ["Namespace", r.namespace],
    ["User", h("span", { title: (r.user.groups ?? []).join("\n") }, r.user.username)],
    r.userAgent && ["Agent", r.userAgent],
    r.owner && ["Owner", `${r.owner.kind} ${r.owner.name}`],
    ["API", `${r.group ? `${r.group}/` : ""}${r.version}`],
    kept && ["Server", d.metadata.labels?.["decisions.gatehouse.dev/server"] ?? "unknown"],
    d.metadata.name && ["Audit ID", d.metadata.name],
  ].filter(Boolean);
  return h("dl", { class: "facts" }, rows.map(([term, text]) => h("div", {}, h("dt", {}, term), h("dd", {}, text))));
}

// shares shows how the time was spent, in proportion.
function shares(total, mutate, validate) {
  const rest = Math.max(0, total - mutate - validate);
  const parts = [["mutate", "Mutating", mutate], ["validate", "Validating", validate],
    ["rest", "Reading, storing, answering", rest]];
  const sum = Math.max(1, mutate + validate + rest);
  return h("div", { class: "shares" },
    h("div", { class: "bar", "aria-hidden": "true" }, parts.map(([name, , us]) => {
      const part = h("span", { class: name });
      part.style.flexGrow = us / sum;
      return part;
    })),
    h("ul", {}, parts.map(([name, title, us]) => h("li", { class: name },
      `${title} ${took(us)} · ${Math.round((100 * us) / sum)} %`))));
}

const phases = {
  "Mutate 0": ["Mutating phase", "plugins may change the object"],
  "Mutate 1": ["Mutating phase, once more", "since a webhook or a policy had changed the object"],
  "Validate 0": ["Validating phase", "plugins may refuse the object"],
};

// picture has a line for each plugin, in order. Its bar begins where the one before ended, and is as
// wide as the plugin's time; the shortest have a least width, to be seen at all.
function picture(steps) {
  const least = Math.min(1.2, 45 / steps.length);
  const sum = Math.max(1, steps.reduce((all, step) => all + step.took, 0));
  const known = new Known();
  let at = 0;
  const all = h("div", { class: "picture" },
    h("p", { class: "note" }, `Width is time, ${took(sum)} in all; the shortest have a least width.`));
  let group = null;
  let body = null;
  for (const step of steps) {
    const phase = `${step.phase} ${step.round}`;
    if (phase !== group) {
      group = phase;
      const [title, what] = phases[phase] ?? [phase, ""];
      const id = `phase-${phase.replace(" ", "-")}`;
      body = h("ol", { "aria-labelledby": id });
      all.append(h("section", { class: `phase ${step.phase}` },
        h("h4", { id }, title, " ", h("small", {}, what)), body));
    }
    const width = least + ((100 - least * steps.length) * step.took) / sum;
    body.append(line(step, at, width, known));
    at += width;
  }
  all.addEventListener("keydown", walk);
  return all;
}

function line(step, at, width, known) {
  const changes = step.patch?.length ?? 0;
  const calls = (step.calls ?? []).map((call) => ({ ...call, took: micro(call.duration) }));
  const special = step.verdict !== "Admitted";
  const open = calls.some((call) => call.failedOpen);
  const has = changes || calls.length || step.message || step.omittedCalls;
  const head = [
    h("span", { class: "mark", "aria-hidden": "true" }, special ? marks[step.verdict] : changes ? "±" : open ? "⚠" : ""),
    h("span", { class: "name" }, step.plugin),
    h("span", { class: "says" }, says(step, changes, calls)),
    stretch(at, width),
    h("span", { class: "took" }, took(step.took)),
    changes > 0 && h("span", { class: "fields" }, fields(step.patch)),
  ];
  const kind = `${step.verdict}${changes ? " changed" : ""}${has ? "" : " plain"}`;
  if (!has) return h("li", { class: `step ${kind}` }, h("div", { class: "head" }, head));
  const shown = special || open;
  // One after the other, or all at once as validating webhooks are: their sum tells.
  const serial = calls.reduce((sum, call) => sum + call.took, 0) <= step.took * 1.02;
  let from = 0;
  const inner = h("div", { class: "inner" },
    step.message && h("p", { class: "message" }, step.message),
    changes > 0 && !calls.some((call) => call.patch?.length) &&
      diff(step.patch, known, step.plugin, step.patchCut),
    calls.map((call) => {
      const begin = serial ? from : 0;
      from += call.took;
      return part(call, at + (width * begin) / Math.max(1, step.took), (width * call.took) / Math.max(1, step.took),
        known);
    }),
    step.omittedCalls > 0 && h("p", { class: "note" },
      `${count(step.omittedCalls, "more call")} admitted the request and changed nothing.`));
  inner.hidden = !shown;
  const button = h("button", { class: "head", "aria-expanded": String(shown), onclick: () => expand(button, inner.hidden) },
    head);
  return h("li", { class: `step ${kind}` }, button, inner);
}

// stretch is the bar of what took from at on for so long, in hundredths of the whole.
function stretch(at, width) {
  const bar = h("i");
  bar.style.marginLeft = `${Math.min(at, 99.5)}%`;
  bar.style.width = `${width}%`;
  return h("span", { class: "bar" }, bar);
}

function expand(button, on) {
  button.nextElementSibling.hidden = !on;
  button.setAttribute("aria-expanded", String(on));
}

// every shows what all steps did, or hides it if that is shown.
export function every() {
  const buttons = [...document.querySelectorAll(".picture button.head")];
  const on = buttons.some((button) => button.getAttribute("aria-expanded") === "false");
  for (const button of buttons) expand(button, on);
  const control = document.getElementById("every");
  if (control) control.textContent = on ? "Hide all" : "Show all";
}

function says(step, changes, calls) {
  const words = [];
  if (step.verdict !== "Admitted") words.push(step.verdict.toLowerCase());
  if (changes) words.push(count(changes, "change"));
  const asked = calls.filter((call) => call.verdict !== "Skipped").length + (step.omittedCalls ?? 0);
  if (asked) words.push(count(asked, "call"));
  if (calls.length + (step.omittedCalls ?? 0) > asked) words.push(`${calls.length - asked} skipped`);
  const open = calls.filter((call) => call.failedOpen).length;
  if (open) words.push(`${open} failed open`);
  return words.join(" · ");
}

// part is a webhook, a policy, a quota or a LimitRange within a plugin.
function part(call, at, width, known) {
  const of = [call.configuration && `of ${call.configuration}`, call.binding && `bound by ${call.binding}`,
    call.param && `with ${call.param}`].filter(Boolean).join(", ");
  return h("div", { class: `call ${call.failedOpen ? "open" : call.verdict}${call.patch?.length ? " changed" : ""}` },
    h("div", { class: "head" },
      h("span", { class: "mark", role: "img", "aria-label": call.failedOpen ? "failed open" : call.verdict },
        call.failedOpen ? "⚠" : call.patch?.length && call.verdict === "Admitted" ? "±" : marks[call.verdict]),
      h("span", { class: "name" }, call.name, " ", of && h("small", {}, of)),
      h("span", { class: "says" }, `${call.kind} · ${call.failedOpen ? "failed open" : call.verdict.toLowerCase()}`),
      stretch(at, width),
      h("span", { class: "took" }, call.verdict === "Skipped" ? "" : took(call.took))),
    call.why && h("p", { class: "message" }, call.why),
    call.patch?.length > 0 && diff(call.patch, known, call.name, call.patchCut));
}

// walk moves between the steps that can be opened.
function walk(event) {
  const by = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
  const buttons = [...event.currentTarget.querySelectorAll("button.head")];
  const to = buttons[buttons.indexOf(document.activeElement) + by];
  event.preventDefault();
  event.stopPropagation();
  to?.focus();
}
