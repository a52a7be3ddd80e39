"use strict";
// Without this script, everything works except tooltips, keys, saving figures and live progress.
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const first = (selector) => document.querySelector(selector);

  function toggleTheme() {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("aleatoric-theme", root.dataset.theme); } catch { /* not kept */ }
  }
  all("[data-theme-toggle]").forEach((button) => button.addEventListener("click", toggleTheme));

  // Tooltips: text only, never markup.
  const tooltip = first("#tooltip");
  function tipOf(mark) {
    const data = mark.dataset;
    return data.word === undefined ? data.tip : `${data.word} · ${data.series}: ${data.detail}`;
  }
  function showTip(mark, x, y) {
    tooltip.textContent = tipOf(mark);
    tooltip.hidden = false;
    const box = tooltip.getBoundingClientRect();
    const left = Math.min(x + 14, innerWidth - box.width - 8);
    const top = y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18;
    tooltip.style.left = `${Math.max(4, left)}px`;
    tooltip.style.top = `${Math.max(4, top)}px`;
  }
  const hideTip = () => { tooltip.hidden = true; };
  const marked = (event) => event.target.closest?.("[data-word], [data-tip]");
  addEventListener("mousemove", (event) => {
    const mark = marked(event);
    if (mark) showTip(mark, event.clientX, event.clientY);
    else if (!event.target.closest?.("svg.chart")) hideTip();
  });
  addEventListener("focusin", (event) => {
    const mark = marked(event);
    if (!mark) { hideTip(); return; }
    const box = mark.getBoundingClientRect();
    showTip(mark, box.right, box.top);
  });
  addEventListener("scroll", hideTip, { passive: true });

  // Figures, drawn as in a report.
  all("figure[data-picture]").forEach((figure) => {
    const place = figure.querySelector(".drawing"), picture = JSON.parse(figure.dataset.picture);
    const draw = () => {
      const drawn = drawFigure(picture, Math.max(280, place.clientWidth));
      drawn.node.setAttribute("aria-label", figure.dataset.name);
      makeVisitable(drawn.node, drawn.hits, () => {});
      place.replaceChildren(drawn.node);
    };
    draw();
    let waiting = null;
    addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(draw, 150); });
  });

  // A long context is shown from its end, where the gap is; a search or an order selects its first hit.
  all("[data-end]").forEach((box) => { box.scrollTop = box.scrollHeight; });
  const asked = new URLSearchParams(location.search);
  if (asked.has("q") || asked.has("sort")) first("table.list a.open")?.focus({ preventScroll: true });

  // Forms that are submitted when a choice changes.
  all("form.filters").forEach((form) => form.addEventListener("change", (event) => {
    const field = event.target;
    if (!("auto" in field.dataset)) return;
    if ("resort" in field.dataset) all("[name=sort], [name=dir]", form).forEach((one) => one.remove());
    form.requestSubmit(form.querySelector("button.main"));
  }));
  // Leave empty fields out of addresses.
  all("form.filters").forEach((form) => form.addEventListener("formdata", (event) => {
    for (const [key, value] of [...event.formData.entries()]) if (value === "") event.formData.delete(key);
    if (!event.formData.has("min") && !event.formData.has("max")) event.formData.delete("of");
  }));

  // Tables are sorted in place: by the first number of a cell, or by its text.
  const valueOf = (cell) => {
    const found = cell.textContent.replace("−", "-").match(/-?\d+(\.\d+)?/);
    return found ? Number(found[0]) : null;
  };
  function compareCells(one, other, isText) {
    if (isText) return one.textContent.localeCompare(other.textContent);
    const [a, b] = [valueOf(one), valueOf(other)];
    if (a === null || b === null) return (a === null) - (b === null);
    return a - b;
  }
  function sortBy(heading) {
    const table = heading.closest("table"), body = table.tBodies[0];
    const column = heading.cellIndex, rows = [...body.rows];
    const down = heading.getAttribute("aria-sort") === "ascending";
    const isText = rows.every((row) => column === 0 || valueOf(row.cells[column]) === null);
    rows.sort((a, b) => compareCells(a.cells[column], b.cells[column], isText) * (down ? -1 : 1));
    const known = (row) => isText || valueOf(row.cells[column]) !== null;
    [...rows.filter(known), ...rows.filter((row) => !known(row))].forEach((row) => body.append(row));
    all("th", table.tHead).forEach((one) => one.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  }
  all("th[data-sort]").forEach((heading) => {
    heading.addEventListener("click", () => sortBy(heading));
    heading.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sortBy(heading); }
    });
  });

  // A figure as a file, with the styles of the style sheet written into it.
  const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "fill-opacity", "font-size", "font-family", "font-weight"];
  function standing(svg) {
    const copy = svg.cloneNode(true), box = svg.getBoundingClientRect();
    const originals = all("*", svg);
    all("*", copy).forEach((node, i) => {
      const style = getComputedStyle(originals[i]);
      STYLES.forEach((name) => node.setAttribute(name, style.getPropertyValue(name)));
    });
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", String(Math.round(box.width)));
    copy.setAttribute("height", String(Math.round(box.height)));
    return new XMLSerializer().serializeToString(copy);
  }
  function saveFile(text, name, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  all("button[data-svg]").forEach((button) => button.addEventListener("click", () => {
    const svg = all("svg", button.closest("figure")).find((one) => one.hasAttribute("role"));
    const name = button.dataset.svg.replace(/[^\w.-]+/g, "_").slice(0, 60) || "figure";
    saveFile(standing(svg), `${name}.svg`, "image/svg+xml");
  }));

  // Keys.
  const help = first("#keys");
  all("[data-help]").forEach((button) => button.addEventListener("click", () => help.showModal()));
  function step(by) {
    const links = all("table.list a.open");
    const at = links.indexOf(document.activeElement);
    links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + by))]?.focus();
  }
  const follow = (relation) => first(`a[rel=${relation}]`)?.click();
  const KEYS = {
    "/": () => { const box = first("#context-search"); box?.focus(); box?.select(); },
    j: () => step(1), k: () => step(-1),
    n: () => follow("next"), p: () => follow("prev"), u: () => follow("up"),
    t: toggleTheme, "?": () => help.showModal(),
  };
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") { hideTip(); document.activeElement?.blur(); }
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.matches("input, select, textarea")) return;
    const act = KEYS[event.key];
    if (act) { event.preventDefault(); act(); }
  });

  // A run in progress: poll it, and reload the page when there are new numbers.
  const watched = document.body.dataset.watch, panel = first("#progress");
  function showProgress(found) {
    for (const own of found.systems) {
      const row = all("tr[data-system]", panel).find((one) => one.dataset.system === own.name);
      if (!row) { location.reload(); return; }
      const bar = row.querySelector("progress");
      if (bar) { bar.max = found.total; bar.value = own.done; }
      row.querySelector("[data-done]").textContent = String(own.done);
      const tokens = row.querySelector("[data-tokens]");
      if (tokens) tokens.textContent = String(own.tokens);
      row.querySelector("[data-state]").textContent = own.finished ? "done" : "";
    }
    if (found.scoring) first("[data-scoring]").textContent = `Scoring: ${found.scoring} of ${found.total}.`;
  }
  // The state that the page was rendered in: results may be ready before the first poll.
  let known = document.body.dataset.state || null;
  async function ask() {
    try {
      const answer = await fetch(watched, { cache: "no-store" });
      if (answer.ok) {
        const found = await answer.json();
        const state = `${found.version} ${found.summary} ${found.finished}`;
        const busy = document.activeElement?.matches("input, select");
        if (known !== null && known !== state && !busy) { location.reload(); return; }
        if (known === null) known = state;
        if (panel) showProgress(found);
        if (found.finished && found.summary) return;
      }
    } catch { /* the server may have ended: try again */ }
    setTimeout(ask, 1500);
  }
  if (watched) ask();
})();
