// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// The search finds parts of pages by an index that is loaded when the reader first needs it. It asks
// nobody. Scripts are loaded, as a page that is opened as a file can load nothing else.
"use strict";
{
  const root = document.documentElement;
  const box = document.querySelector(".search");
  const input = box.querySelector("input");
  const panel = box.querySelector(".results");
  const list = box.querySelector("ul");
  const none = box.querySelector(".none");
  box.hidden = false;

  const load = name => new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = root.dataset.base + name;
    script.onload = resolve;
    script.onerror = () => reject(new Error(name + " can't be loaded"));
    document.head.append(script);
  });

  // Names such as PodSecurity and own-pods are found whole and by their parts.
  const words = text => text.match(/[\p{L}\p{N}]+/gu) ?? [];
  const names = text => text.match(/[\p{L}\p{N}]+(?:[-_.\/][\p{L}\p{N}]+)*/gu) ?? [];
  const tokenize = text => names(text).flatMap(name => {
    const parts = words(name);
    const smaller = parts.flatMap(part => part.match(/\p{Lu}+(?!\p{Ll})|\p{Lu}?[\p{Ll}\p{N}]+/gu) ?? []);
    return [...new Set([name, ...parts, ...smaller])];
  });
  let loading;
  const index = () => loading ??= Promise.all([load("assets/minisearch.js"), load("search-index.js")]).then(() => {
    const search = new MiniSearch({
      fields: ["page", "heading", "text"], idField: "url", tokenize,
      searchOptions: { boost: { page: 4, heading: 3 }, boostDocument: url => url.includes("#") ? 1 : 1.6, prefix: term => term.length > 2, fuzzy: term => term.length > 5 ? 0.15 : false },
    });
    search.addAll(searchIndex);
    const chunks = new Map(searchIndex.map(c => [c.url, c]));
    return query => {
      let found = search.search(query, { tokenize: names, combineWith: "AND", fuzzy: false });
      if (!found.length) found = search.search(query, { tokenize: words, combineWith: "AND" });
      if (!found.length) found = search.search(query, { tokenize: words });
      const shown = new Map(); // how many parts of each page
      return found.map(f => ({ ...chunks.get(f.id), terms: f.terms })).filter(chunk => {
        shown.set(chunk.page, (shown.get(chunk.page) ?? 0) + 1);
        return shown.get(chunk.page) <= 3;
      }).slice(0, 12);
    };
  });

  // marked returns text with the terms marked, from a little before the first of them on.
  const marked = (text, terms) => {
    const pattern = new RegExp("(" + terms.map(t => t.replace(/[.\/]/g, "\\$&")).join("|") + ")", "giu");
    const first = Math.max(0, text.search(pattern) - 60);
    const begin = first && text.indexOf(" ", first) + 1;
    const part = (begin ? "… " : "") + text.slice(begin, begin + 170) + (text.length > begin + 170 ? " …" : "");
    return part.split(pattern).map((piece, i) => {
      if (i % 2 === 0) return piece;
      const mark = document.createElement("mark");
      mark.textContent = piece;
      return mark;
    });
  };

  let active = -1;
  const activate = to => {
    active = to;
    [...list.children].forEach((item, i) => {
      item.setAttribute("aria-selected", i === active);
      if (i === active) item.scrollIntoView({ block: "nearest" });
    });
    if (active >= 0) input.setAttribute("aria-activedescendant", list.children[active].id);
    else input.removeAttribute("aria-activedescendant");
  };
  const show = open => {
    panel.hidden = !open;
    input.setAttribute("aria-expanded", open && list.childElementCount > 0);
  };

  const update = async () => {
    const query = input.value.trim();
    if (!query) return show(false);
    const search = await index();
    if (query !== input.value.trim()) return;
    const found = search(query);
    list.replaceChildren(...found.map((chunk, i) => {
      const item = document.createElement("li");
      item.id = "result-" + i;
      item.setAttribute("role", "option");
      const link = document.createElement("a");
      link.href = root.dataset.base + chunk.url;
      link.tabIndex = -1;
      const title = document.createElement("strong");
      title.append(...marked(chunk.heading ? `${chunk.page}: ${chunk.heading}` : chunk.page, chunk.terms));
      const text = document.createElement("span");
      text.append(...marked(chunk.text, chunk.terms));
      link.append(title, text);
      item.append(link);
      return item;
    }));
    list.dataset.query = query;
    none.textContent = found.length ? "" : `Nothing is found for ${query}.`;
    panel.scrollTop = 0;
    activate(found.length ? 0 : -1);
    show(true);
  };

  input.addEventListener("focus", () => index().catch(() => {}));
  input.addEventListener("input", () => update().catch(error => {
    none.textContent = error.message;
    show(true);
  }));
  input.addEventListener("keydown", event => {
    const count = list.childElementCount;
    if (event.key === "Escape") {
      show(false);
      input.blur();
    } else if (event.key === "Enter" && !panel.hidden && active >= 0) {
      list.children[active].querySelector("a").click();
    } else if (["ArrowDown", "ArrowUp"].includes(event.key) && count) {
      show(true);
      activate((active + (event.key === "ArrowDown" ? 1 : count - 1)) % count);
    } else {
      return;
    }
    event.preventDefault();
  });
  list.addEventListener("click", () => show(false));
  document.addEventListener("click", event => {
    if (!box.contains(event.target)) show(false);
  });
  document.addEventListener("keydown", event => {
    const typing = event.target.closest?.("input, select, textarea");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      input.focus();
      input.select();
    }
  });
}
