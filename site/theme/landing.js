// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// The recordings are text that is there from the beginning. This script shows one at a time, and has its
// lines appear one after the other on wide screens, for readers who don't mind motion.
"use strict";
{
  const tabs = document.querySelector(".tabs");
  const buttons = [...tabs.querySelectorAll("[data-shows]")];
  const terminals = [...document.querySelectorAll(".terminal")];
  const show = name => {
    for (const button of buttons) button.setAttribute("aria-pressed", button.dataset.shows === name);
    for (const terminal of terminals) {
      terminal.hidden = terminal.id !== name;
      terminal.classList.remove("play");
      if (terminal.id !== name) continue;
      terminal.getBoundingClientRect(); // The animations begin anew.
      terminal.classList.add("play");
    }
  };
  for (const button of buttons) button.addEventListener("click", () => show(button.dataset.shows));
  const replay = tabs.querySelector(".replay");
  const wide = matchMedia("(min-width: 75.01rem)"), still = matchMedia("(prefers-reduced-motion: reduce)");
  replay.addEventListener("click", () => show(terminals.find(t => !t.hidden).id));
  // Beside the text all terminals are as tall as the tallest, so that nothing moves when another is chosen.
  const level = () => {
    replay.hidden = still.matches || !wide.matches;
    for (const terminal of terminals) terminal.style.minHeight = "";
    if (!wide.matches) return;
    const shown = terminals.map(t => t.hidden);
    for (const terminal of terminals) terminal.hidden = false;
    const tallest = Math.max(...terminals.map(t => t.offsetHeight));
    terminals.forEach((terminal, i) => {
      terminal.hidden = shown[i];
      terminal.style.minHeight = tallest + "px";
    });
  };
  tabs.hidden = false;
  show(terminals[0].id);
  level();
  addEventListener("resize", level);
}
