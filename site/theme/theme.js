// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// The theme is set before the page is shown, so that it doesn't flash.
"use strict";
document.documentElement.classList.add("js");
try {
  const chosen = localStorage.getItem("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch {
  // The browser keeps nothing: the theme is the system's.
}
