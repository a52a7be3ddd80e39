"use strict";
// Before the page is drawn, so that a dark one does not flash.
(() => {
  const kept = () => { try { return localStorage.getItem("aleatoric-theme"); } catch { return null; } };
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = kept() || system;
})();
