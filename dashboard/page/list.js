// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

import { h, marks, time, took } from "./dom.js";
import { failedOpen } from "./rows.js";

// List shows rows of one height, as many elements as fit on the screen, however many rows there are.
// The element that is active stays the container: it says which row is (aria-activedescendant), so
// that no scrolling takes the focus away.
export class List {
  rows = [];
  active = null; // ID
  opened = null; // ID

  constructor(container, heads, open) {
    this.container = container;
    this.open = open;
    this.space = h("div", { class: "space", role: "presentation" });
    container.append(this.space);
    this.pool = [];
    heads.append(...columns.map(([name, title]) => h("span", { class: name }, title)));
    container.addEventListener("scroll", () => this.draw(), { passive: true });
    container.addEventListener("keydown", (event) => this.key(event));
    container.addEventListener("click", (event) => {
      const at = event.target.closest("[role=option]");
      if (at) this.choose(at.dataset.id);
    });
    new ResizeObserver(() => {
      const narrow = container.clientWidth < 760;
      container.parentElement.classList.toggle("narrow", narrow);
      this.height = narrow ? 52 : 30;
      this.draw();
    }).observe(container);
    this.height = 30;
  }

  // show takes the rows. Who has scrolled away from the top keeps what is on the screen.
  show(rows) {
    const top = this.container.scrollTop;
    const first = Math.floor(top / this.height);
    const anchor = top > 0 ? this.rows[first]?.id : undefined;
    this.rows = rows;
    this.space.style.height = `${rows.length * this.height}px`;
    if (anchor !== undefined && rows[first]?.id !== anchor) {
      const now = rows.findIndex((row) => row.id === anchor);
      if (now >= 0) this.container.scrollTop = top + (now - first) * this.height;
    }
    this.draw();
  }

  draw() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.render();
    });
  }

  render() {
    const { height, container, rows, pool } = this;
    const over = 8;
    const last = Math.min(rows.length, Math.ceil((container.scrollTop + container.clientHeight) / height) + over);
    // If rows have gone, it may be scrolled beyond the last one until the browser notices.
    const first = Math.max(0, Math.min(Math.floor(container.scrollTop / height) - over, last));
    while (pool.length < last - first) {
      const element = line();
      pool.push(element);
      this.space.append(element);
    }
    while (pool.length > last - first) pool.pop().remove();
    let active = null;
    for (let i = first; i < last; i++) {
      const element = pool[i % pool.length];
      fill(element, rows[i]);
      element.style.transform = `translateY(${i * height}px)`;
      element.id = `row-${i}`;
      element.setAttribute("aria-posinset", i + 1);
      element.setAttribute("aria-setsize", rows.length);
      const isActive = rows[i].id === this.active;
      if (isActive) active = element.id;
      element.classList.toggle("active", isActive);
      element.setAttribute("aria-selected", rows[i].id === this.opened);
    }
    if (rows.length && !performance.getEntriesByName("first").length) performance.mark("first"); // for measuring
    if (active) container.setAttribute("aria-activedescendant", active);
    else container.removeAttribute("aria-activedescendant");
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.container.clientHeight / this.height) - 1);
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: page, PageUp: -page, End: Infinity, G: Infinity,
      Home: -Infinity, g: -Infinity }[event.key];
    if (step !== undefined) this.move(step);
    else if ((event.key === "Enter" || event.key === " ") && this.active) this.choose(this.active);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  move(step) {
    const { rows, height, container } = this;
    if (!rows.length) return;
    const at = rows.findIndex((row) => row.id === this.active);
    const top = Math.ceil(container.scrollTop / height);
    const to = Math.max(0, Math.min(rows.length - 1, at < 0 && Math.abs(step) === 1 ? top : Math.max(at, 0) + step));
    this.active = rows[to].id;
    if (to * height < container.scrollTop) container.scrollTop = to * height;
    else if ((to + 1) * height > container.scrollTop + container.clientHeight) {
      container.scrollTop = (to + 1) * height - container.clientHeight;
    }
    if (this.opened) this.choose(this.active); // beside it, the request follows
    this.draw();
  }

  choose(id) {
    this.active = id;
    this.draw();
    this.open(id);
  }
}

const columns = [["at", "Time"], ["verdict", "Verdict"], ["op", "Operation"], ["obj", "Object"], ["ns", "Namespace"],
  ["user", "User"], ["by", "Refused or changed by"], ["took", "Took"]];

function line() {
  const element = h("div", { role: "option", class: "row" });
  element.parts = {};
  for (const [name] of columns) {
    element.parts[name] = h("span", { class: name });
    element.append(element.parts[name]);
  }
  element.parts.mark = h("span", { class: "mark", "aria-hidden": "true" });
  element.parts.word = h("span", { class: "word" });
  element.parts.verdict.append(element.parts.mark, element.parts.word);
  return element;
}

function fill(element, row) {
  if (element.row === row) return;
  element.row = row;
  element.dataset.id = row.id;
  const p = element.parts;
  element.className = `row ${row.verdict}${row.changed ? " changed" : ""}${failedOpen(row) ? " open" : ""}${row.dry ? " dry" : ""}`;
  p.at.textContent = time(row.at);
  p.mark.textContent = marks[row.verdict];
  p.word.textContent = row.verdict;
  p.op.textContent = row.dry ? `${row.op} dry` : row.op;
  p.obj.textContent = row.obj;
  p.ns.textContent = row.ns ?? "";
  p.user.textContent = row.user;
  p.by.textContent = by(row);
  p.took.textContent = took(row.took);
  element.title = row.msg ?? "";
}

// by is who did something about a request, in one line.
export function by(row) {
  const changed = row.changed ? `± ${row.changed.join(", ")}` : "";
  const open = failedOpen(row) ? `⚠ ${row.open.map((call) => call.name).join(", ")} failed open  ` : "";
  if (row.verdict === "Admitted") return open + changed;
  return `${marks[row.verdict]} ${row.by ?? `the API: ${row.code ? row.code : "no answer"}`} ${open}${changed && changed}`;
}
