// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

import { h } from "./dom.js";

// A JSON patch (RFC 6902) has the new values, and not the old ones. An old value is known if an
// earlier plugin set it in the same request. Known follows the steps to find it.
export class Known {
  set = new Map(); // what is known, by path: {value, by}

  // before is what is known of a path before an operation.
  before(path) {
    for (let end = path.length; end > 0; end = path.lastIndexOf("/", end - 1)) {
      const found = this.set.get(path.slice(0, end));
      if (!found) continue;
      let value = found.value;
      for (const part of segments(path.slice(end))) value = value?.[part];
      return value === undefined ? undefined : { value, by: found.by };
    }
    return undefined;
  }

  // after applies an operation. If elements of an array move, nothing is known of them any more.
  after(operation, by) {
    const { op, path, from, value } = operation;
    const last = segments(path).at(-1);
    if (/^\d+$/.test(last) && op !== "replace" && op !== "test") this.forget(path.slice(0, path.lastIndexOf("/")));
    else this.forget(path);
    if (from) this.forget(from.slice(0, Math.max(from.lastIndexOf("/"), 1)));
    if ((op === "add" || op === "replace") && last !== "-") this.set.set(path, { value, by });
  }

  forget(path) {
    for (const other of this.set.keys()) {
      if (other === path || other.startsWith(path + "/") || path.startsWith(other + "/")) this.set.delete(other);
    }
  }
}

function segments(pointer) {
  return pointer.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

// field is a JSON pointer as people write it: spec.containers[0].image.
export function field(pointer) {
  let text = "";
  for (const part of segments(pointer)) {
    if (/^\d+$/.test(part)) text += `[${part}]`;
    else if (part === "-") text += "[+]";
    else if (/^[\w-]+$/.test(part)) text += text ? `.${part}` : part;
    else text += `[${JSON.stringify(part)}]`;
  }
  return text || "(the whole object)";
}

// fields are those that a patch changes, in a line.
export function fields(patch) {
  return patch.map(({ op, path }) => h("code", {}, `${(words[op] ?? ["·"])[0]} ${field(path)}`));
}

const words = { add: ["+", "added"], replace: ["~", "replaced"], remove: ["−", "removed"], move: ["→", "moved"],
  copy: ["=", "copied"], test: ["?", "tested"] };

// diff shows a patch, each operation with what was and what is.
export function diff(patch, known, by, cut) {
  return h("div", { class: "diff" },
    patch.map((operation) => {
      const [sign, word] = words[operation.op] ?? ["·", operation.op];
      const was = operation.op === "add" ? undefined : known.before(operation.path);
      known.after(operation, by);
      return h("div", { class: `change ${operation.op}` },
        h("span", { class: "sign", title: word, role: "img", "aria-label": word }, sign),
        h("code", { class: "field" }, field(operation.path)),
        h("div", { class: "values" },
          operation.from && h("div", { class: "note" }, `from ${field(operation.from)}`),
          was && h("div", { class: "was" }, h("span", { class: "label" }, "was"), value(was.value),
            h("span", { class: "note" }, `set by ${was.by}`)),
          !was && (operation.op === "replace" || operation.op === "remove") &&
            h("div", { class: "was" }, h("span", { class: "label" }, "was"),
              h("span", { class: "note" }, "as it was sent (objects aren’t kept, only changes)")),
          operation.op === "remove" && h("div", { class: "now" }, h("span", { class: "label" }, "now"), "gone"),
          operation.value !== undefined && h("div", { class: "now" },
            h("span", { class: "label" }, operation.op === "add" ? "new" : "now"), value(operation.value))));
    }),
    cut && h("p", { class: "note" }, "The patch was too large to be kept whole; this is its beginning."));
}

// value is a JSON value as YAML has it: short ones in the line, others as a block.
function value(json) {
  const lines = yaml(json);
  return h("code", { class: lines.length > 1 ? "block" : "" }, lines.join("\n"));
}

function yaml(json) {
  if (json === null || typeof json !== "object") return scalar(json).split("\n");
  const entries = Array.isArray(json) ? json.map((item) => ["-", item]) : Object.entries(json);
  if (!entries.length) return [Array.isArray(json) ? "[]" : "{}"];
  return entries.flatMap(([name, item]) => {
    const list = name === "-" && Array.isArray(json);
    const lines = yaml(item);
    const head = list ? "-" : `${plain(name)}:`;
    const nested = item !== null && typeof item === "object" && Object.keys(item).length > 0;
    if (!nested && lines.length === 1) return [`${head} ${lines[0]}`];
    if (!nested) return [`${head} |`, ...lines.map((line) => `  ${line}`)];
    if (list) return lines.map((line, i) => (i ? `  ${line}` : `- ${line}`));
    return [head, ...lines.map((line) => `  ${line}`)];
  });
}

const scalar = (json) => (typeof json === "string" ? (json.includes("\n") ? json : plain(json)) : JSON.stringify(json));

// plain is a string without quotes, unless it could be read as something else.
function plain(text) {
  return /^[A-Za-z/_.(][^:#"'\n]*$/.test(text) && !/^(true|false|null|yes|no|on|off)$/i.test(text) && text.trim() === text
    ? text : JSON.stringify(text);
}
