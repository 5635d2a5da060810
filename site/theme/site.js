// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// The page works without this script. It adds the switch between light and dark, the menu of narrow
// screens, the choice of a version, buttons that copy code, and marks where the reader is.
"use strict";
{
  const root = document.documentElement;

  const theme = document.querySelector("button.theme");
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  theme.hidden = false;
  theme.setAttribute("aria-pressed", dark());
  theme.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    theme.setAttribute("aria-pressed", dark());
    try {
      localStorage.setItem("theme", root.dataset.theme);
    } catch {
      // It lasts until the page is left.
    }
  });

  const menu = document.querySelector("button.menu");
  const sidebar = document.querySelector(".sidebar");
  if (sidebar) {
    const show = open => {
      root.style.setProperty("--top", document.querySelector(".top").getBoundingClientRect().bottom + "px");
      sidebar.classList.toggle("open", open);
      menu.setAttribute("aria-expanded", open);
    };
    menu.hidden = false;
    menu.addEventListener("click", () => show(!sidebar.classList.contains("open")));
    document.addEventListener("keydown", event => {
      if (event.key === "Escape" && sidebar.classList.contains("open")) {
        show(false);
        menu.focus();
      }
    });
    const current = sidebar.querySelector("[aria-current]");
    if (current?.offsetTop > sidebar.clientHeight - 60) sidebar.scrollTop = current.offsetTop - sidebar.clientHeight / 2;
  }

  // versions.js has the list. A version that lacks this page is opened at its beginning.
  const select = document.querySelector("select.versions");
  if (typeof versions !== "undefined") {
    const base = root.dataset.base, here = root.dataset.version;
    const prefix = location.pathname.slice(0, location.pathname.length - root.dataset.page.length);
    const newest = versions.find(v => v.directory === "");
    const inRoot = base === root.dataset.root;
    const isHere = v => inRoot ? v.directory === "" : v.directory && prefix.endsWith("/" + v.directory);
    select.replaceChildren(...versions.map(v => new Option(v.name, v.directory, false, isHere(v))));
    const address = v => root.dataset.root + v.directory + (v.pages.includes(root.dataset.page) ? root.dataset.page : "index.html");
    select.addEventListener("change", () => {
      location.href = address(versions.find(v => v.directory === select.value));
    });
    if (!inRoot && newest && newest.name !== here) {
      const notice = document.querySelector(".notice");
      const link = document.createElement("a");
      link.href = address(newest);
      link.textContent = "the newest release, " + newest.name;
      notice.append(`You read about ${here}. There is also `, link, ".");
      notice.hidden = false;
    }
  }

  for (const block of document.querySelectorAll(".code")) {
    const copy = document.createElement("button");
    copy.type = "button";
    copy.className = "copy";
    copy.textContent = "Copy";
    copy.addEventListener("click", async () => {
      const commands = [...block.querySelectorAll(".cmd")];
      const text = commands.length ? commands.map(c => c.textContent.trimEnd()).join("\n") : block.querySelector("pre").textContent;
      try {
        await navigator.clipboard.writeText(text);
        copy.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(block.querySelector("pre"));
        copy.textContent = "Selected";
      }
      setTimeout(() => { copy.textContent = "Copy"; }, 1500);
    });
    block.append(copy);
  }

  // What is scrolled by itself can be reached by keyboard.
  const reachable = () => {
    for (const part of document.querySelectorAll(".scroll, .code pre")) {
      if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
      else part.removeAttribute("tabindex");
    }
  };
  reachable();
  addEventListener("resize", reachable);

  const entries = new Map([...document.querySelectorAll(".toc a")].map(a => [decodeURIComponent(a.hash.slice(1)), a]));
  if (entries.size) {
    const headings = [...entries.keys()].map(id => document.getElementById(id));
    const mark = () => {
      const last = headings.findLast(h => h.getBoundingClientRect().top < 140);
      for (const [id, a] of entries) a.classList.toggle("here", id === last?.id);
    };
    addEventListener("scroll", mark, { passive: true });
    mark();
  }
}
