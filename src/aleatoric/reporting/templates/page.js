// The page itself: theme, sortable tables, figures that are drawn when they become visible, links.

const root = document.documentElement;

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function connectTheme() {
  const button = document.querySelector("[data-theme-toggle]");
  const name = () => { button.setAttribute("aria-pressed", String(isDark())); };
  try { const kept = localStorage.getItem("aleatoric-theme"); if (kept) root.dataset.theme = kept; } catch { /* a page opened from a file may have no storage */ }
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("aleatoric-theme", root.dataset.theme); } catch { /* as above */ }
    name();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
}

function connectSorting(table) {
  const body = table.tBodies[0];
  table.querySelectorAll("th[data-sort]").forEach((head) => {
    head.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th[data-sort]").forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[head.cellIndex].dataset.value ?? "";
      const compare = head.dataset.sort === "number" ? (a, b) => Number(a) - Number(b) : (a, b) => a.localeCompare(b);
      const rows = [...body.rows].sort((one, two) => {
        const [a, b] = [key(one), key(two)];
        // Undefined values come last in both directions.
        if (a === "" || b === "") return (a === "") - (b === "");
        return (down ? -1 : 1) * compare(a, b);
      });
      body.append(...rows);
    });
  });
}

function connectCitations() {
  const dialog = document.getElementById("citation");
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-cite]");
    if (button) {
      const row = document.getElementById(button.dataset.cite);
      dialog.querySelector("[data-what]").textContent = `${row.dataset.system}, ${row.dataset.metric}: ${row.dataset.shown}`;
      dialog.querySelector("[data-signature]").textContent = row.querySelector("[data-signature]").textContent;
      dialog.querySelector("[data-command]").textContent = row.querySelector("[data-command]").textContent;
      dialog.showModal();
    }
    const copy = event.target.closest("button[data-copy]");
    if (copy) copyText(copy, dialog.querySelector(copy.dataset.copy).textContent);
    if (event.target === dialog) dialog.close();
  });
}

function copyText(button, text) {
  const done = () => { const before = button.textContent; button.textContent = "Copied"; setTimeout(() => { button.textContent = before; }, 1500); };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, () => {});
}

class FigureBox {
  constructor(box, data) {
    this.box = box;
    this.data = data;
    this.variant = Object.keys(data.variants)[0];
    this.select = box.querySelector("select[data-variant]");
    if (this.select) this.select.addEventListener("change", () => { this.show(this.select.value); });
    connectDownloads(box, () => `${box.id.replace("figure-", "")} ${this.variant}`.trim(), () => { this.draw(); return { picture: data.variants[this.variant], node: this.node, title: box.querySelector("h4").textContent }; });
    box.classList.toggle("broad", isBroad(data.variants[this.variant]));
    this.name();
  }

  // The heading says which system is drawn.
  name() {
    const title = this.data.variants[this.variant].title ?? "";
    const shown = this.variant && title.includes(this.variant) ? title : this.variant;
    this.box.querySelector("[data-variant-name]").textContent = shown ? `: ${shown}` : "";
  }

  show(variant) {
    if (!(variant in this.data.variants)) return;
    this.variant = variant;
    if (this.select) this.select.value = variant;
    this.node = null;
    this.name();
    this.draw();
  }

  draw(wanted = null) {
    const place = this.box.querySelector(".drawing");
    const width = wanted ?? Math.max(280, place.clientWidth || 700);
    if (this.node && this.width === width) return;
    this.width = width;
    const drawn = drawFigure(this.data.variants[this.variant], width);
    drawn.node.setAttribute("aria-label", `${this.data.title}${this.variant ? ", " + this.variant : ""}. ${this.data.read}`);
    makeVisitable(drawn.node, drawn.hits, follow);
    place.replaceChildren(drawn.node);
    this.node = drawn.node;
  }
}

// On paper, figures of one panel stand side by side.
const PAPER = { broad: 690, narrow: 335 };
const isBroad = (picture) => (picture.kind === "Panels" && picture.pictures.length > 1) || ["HeatMap", "AgreementBars"].includes(picture.kind);
const figureBoxes = new Map();
const pickers = [];

function connectFigures() {
  const data = JSON.parse(document.getElementById("figures").textContent);
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) figureBoxes.get(entry.target.dataset.figure).draw();
  }, { rootMargin: "400px" });
  document.querySelectorAll("figure[data-figure]").forEach((box) => {
    figureBoxes.set(box.dataset.figure, new FigureBox(box, data[box.dataset.figure]));
    seen.observe(box);
  });
  let waiting = null;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      for (const box of figureBoxes.values()) if (box.node) box.draw();
      pickers.forEach((picker) => picker.draw());
    }, 150);
  });
  addEventListener("beforeprint", () => {
    for (const box of figureBoxes.values()) box.draw(PAPER[isBroad(box.data.variants[box.variant]) ? "broad" : "narrow"]);
    document.querySelectorAll("details.print").forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => { for (const box of figureBoxes.values()) box.draw(); });
}

// #context=ID&system=NAME or #figure=NAME&system=NAME
function followAddress() {
  const asked = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
  if (asked.has("context")) follow({ context: asked.get("context"), system: asked.get("system") }, false);
  if (asked.has("figure")) {
    const box = figureBoxes.get(asked.get("figure"));
    if (!box) return;
    if (asked.has("system")) box.show(asked.get("system"));
    const hidden = box.box.closest("details");
    if (hidden) hidden.open = true;
    box.box.scrollIntoView();
    box.box.classList.add("asked");
  }
}

function follow(link, note = true) {
  const picker = pickers.find((one) => one.has(link.context));
  if (!picker) return;
  picker.choose(link.context, note, link.system);
  picker.view.scrollIntoView({ block: "start" });
}

connectTheme();
document.querySelectorAll("table[data-sortable]").forEach(connectSorting);
connectCitations();
connectFigures();
document.querySelectorAll("[data-picker]").forEach((place) => pickers.push(new Picker(place.dataset.picker)));
followAddress();
addEventListener("hashchange", followAddress);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTooltip(); });
performance.mark("interactive");
root.dataset.ready = String(Math.round(performance.now()));
