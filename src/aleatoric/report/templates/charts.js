"use strict";
// Small charts in SVG, without a library: the page stays small and opens quickly.
// A chart is an <svg> and a list of hits: points that the pointer or the arrow keys can reach.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";
const N_SLOTS = 8;
const CHAR = 6.6; // the mean width of a character at 12 px

function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG_NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function tag(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// Texts of corpora and models are isolated, so that their writing direction affects nothing else.
const isolated = (text) => tag("bdi", {}, text);

function shortNumber(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 10000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

const clipped = (text, n) => (text.length > n ? text.slice(0, n - 1) + "…" : text);
const finite = (values) => values.filter((v) => v !== null && v !== undefined && isFinite(v));
const slotClass = (slot) => `s${slot % N_SLOTS} d${slot % 5}`;

function niceTicks(low, high, about = 5) {
  const span = high - low || 1;
  const rough = span / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) {
    ticks.push(Number((i * step).toPrecision(12)));
  }
  return ticks;
}

function scale(low, high, from, to) {
  const span = high - low || 1;
  const at = (value) => from + ((value - low) / span) * (to - from);
  return Object.assign(at, { low, high, from, to });
}

function extent(values, pad = 0.04) {
  const known = finite(values);
  if (!known.length) return [0, 1];
  let low = Infinity, high = -Infinity;
  for (const v of known) { if (v < low) low = v; if (v > high) high = v; }
  const room = (high - low || Math.abs(high) || 1) * pad;
  return [low - room, high + room];
}

// The drawing area of one chart, its marks and its hits.
class Plot {
  constructor(width, height, margins) {
    this.width = width;
    this.height = height;
    this.left = margins.left;
    this.right = width - margins.right;
    this.top = margins.top;
    this.bottom = height - margins.bottom;
    this.group = svg("g");
    this.hits = [];
  }

  add(name, attributes, ...children) {
    const node = svg(name, attributes, ...children);
    this.group.append(node);
    return node;
  }

  text(x, y, content, options = {}) {
    const { anchor = "middle", kind = "label", turn = null, full = null } = options;
    const attributes = { x, y, "text-anchor": anchor, class: kind };
    if (turn !== null) attributes.transform = `rotate(${turn} ${x} ${y})`;
    const node = this.add("text", attributes, content);
    if (full !== null && full !== content) node.append(svg("title", {}, full));
    return node;
  }

  hit(x, y, text, more = {}) {
    this.hits.push({ x, y, text, ...more });
  }

  title(content) {
    const fits = Math.max(12, Math.floor((this.width - 16) / (CHAR * 1.08)));
    if (content) this.text(this.width / 2, 16, clipped(content, fits), { kind: "title", full: content });
  }

  xAxis(x, label) {
    const about = Math.max(2, Math.floor((this.right - this.left) / 70));
    for (const tick of niceTicks(x.low, x.high, about)) {
      this.add("line", { class: "grid", x1: x(tick), x2: x(tick), y1: this.top, y2: this.bottom });
      this.text(x(tick), this.bottom + 15, shortNumber(tick), { kind: "tick" });
    }
    this.add("line", { class: "axis", x1: this.left, x2: this.right, y1: this.bottom, y2: this.bottom });
    this.text((this.left + this.right) / 2, this.bottom + 32, clipped(label, Math.floor((this.width - 20) / CHAR)), { full: label });
  }

  yAxis(y, label) {
    const about = Math.max(2, Math.floor((this.bottom - this.top) / 45));
    for (const tick of niceTicks(y.low, y.high, about)) {
      this.add("line", { class: "grid", x1: this.left, x2: this.right, y1: y(tick), y2: y(tick) });
      this.text(this.left - 6, y(tick) + 4, shortNumber(tick), { anchor: "end", kind: "tick" });
    }
    const middle = (this.top + this.bottom) / 2;
    if (label) this.text(13, middle, clipped(label, Math.floor((this.bottom - this.top) / CHAR) + 8), { turn: -90, full: label });
  }

  rows(names, y, room) {
    names.forEach((name, i) => {
      const shown = clipped(name, Math.max(4, Math.floor((room - 10) / CHAR)));
      this.text(this.left - 8, y(i) + 4, shown, { anchor: "end", kind: "tick", full: name });
    });
  }

  // The legend above the drawing; legendRoom reserves its space.
  legend(entries) {
    let x = 10, y = 34;
    for (const entry of entries) {
      const shown = clipped(entry.label, 34);
      const wide = 42 + shown.length * CHAR;
      if (x > 10 && x + wide > this.width - 6) { x = 10; y += 18; }
      const style = `${slotClass(entry.slot)} ${entry.grey ? "grey" : ""}`;
      if (entry.box) this.add("rect", { class: `bar ${style}`, x, y: y - 9, width: 18, height: 10 });
      else {
        this.add("line", { class: `line ${style} ${entry.open === undefined ? "" : "thin d0"}`, x1: x, x2: x + 20, y1: y - 4, y2: y - 4 });
        if (entry.open !== undefined) this.add("circle", { class: `${entry.open ? "open" : "dot"} ${style}`, cx: x + 10, cy: y - 4, r: 4 });
      }
      this.text(x + 25, y, shown, { anchor: "start", kind: "tick", full: entry.label });
      x += wide;
    }
  }
}

function legendRoom(entries, width) {
  let x = 10, rows = entries.length ? 1 : 0;
  for (const entry of entries) {
    const wide = 42 + clipped(entry.label, 34).length * CHAR;
    if (x > 10 && x + wide > width - 6) { x = 10; rows++; }
    x += wide;
  }
  return 26 + rows * 18;
}

function pathOf(points) {
  let path = "", pen = "M";
  for (const [x, y] of points) {
    if (x === null || y === null || !isFinite(x) || !isFinite(y)) { pen = "M"; continue; }
    path += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = "L";
  }
  return path;
}

// A whole figure as one <svg>; panels stand side by side if there is room.
function drawFigure(picture, width) {
  const panels = picture.kind === "Panels" ? picture.pictures : [picture];
  const wanted = picture.kind === "Panels" ? picture.columns : 1;
  const columns = Math.max(1, Math.min(wanted, Math.floor(width / 290)));
  const own = width / columns;
  const figure = svg("svg", { xmlns: SVG_NAMESPACE, class: "chart", tabindex: 0, role: "img" });
  const hits = [];
  const head = picture.kind === "Panels" && picture.title && panels.length > 1 ? 20 : 0;
  if (head) figure.append(svg("text", { x: width / 2, y: 14, "text-anchor": "middle", class: "title" }, clipped(picture.title, Math.floor(width / CHAR))));
  let top = head, tallest = 0;
  panels.forEach((panel, i) => {
    const column = i % columns;
    if (column === 0) { top += tallest; tallest = 0; }
    const plot = KINDS[panel.kind].draw(panel, own);
    plot.group.setAttribute("transform", `translate(${column * own} ${top})`);
    figure.append(plot.group);
    for (const hit of plot.hits) hits.push({ ...hit, x: hit.x + column * own, y: hit.y + top });
    tallest = Math.max(tallest, plot.height);
  });
  const height = top + tallest;
  figure.setAttribute("viewBox", `0 0 ${width} ${height}`);
  figure.setAttribute("width", width);
  figure.setAttribute("height", height);
  return { node: figure, hits };
}

// Pointer and keys: the tooltip shows the nearest hit; Enter or a click follows its link.
function makeVisitable(figure, hits, follow) {
  const cursor = svg("circle", { class: "cursor", r: 6, cx: -20, cy: -20 });
  figure.append(cursor);
  let current = -1;
  const visit = (index) => {
    current = index;
    const hit = hits[index];
    cursor.setAttribute("cx", hit.x);
    cursor.setAttribute("cy", hit.y);
    const box = figure.getBoundingClientRect();
    const ratio = box.width / figure.viewBox.baseVal.width;
    showTooltip(hit.text, box.left + hit.x * ratio, box.top + hit.y * ratio);
  };
  const leave = () => { cursor.setAttribute("cx", -20); current = -1; hideTooltip(); };
  figure.addEventListener("mousemove", (event) => {
    if (!hits.length) return;
    const box = figure.getBoundingClientRect();
    const ratio = box.width / figure.viewBox.baseVal.width;
    visit(nearest(hits, (event.clientX - box.left) / ratio, (event.clientY - box.top) / ratio));
  });
  figure.addEventListener("mouseleave", leave);
  figure.addEventListener("blur", leave);
  figure.addEventListener("click", () => { if (current >= 0 && hits[current].link) follow(hits[current].link); });
  figure.addEventListener("keydown", (event) => {
    const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    if (event.key === "Escape") leave();
    else if (event.key === "Enter" && current >= 0 && hits[current].link) follow(hits[current].link);
    else if (event.key in moves && hits.length) {
      event.preventDefault();
      visit(current < 0 ? 0 : (current + moves[event.key] + hits.length) % hits.length);
    }
  });
}

function nearest(hits, x, y) {
  let best = 0, least = Infinity;
  hits.forEach((hit, i) => {
    // A hit with a height is a row: the pointer selects the row that it is in.
    const down = hit.row ? Math.max(0, Math.abs(hit.y - y) - hit.row) * 1e4 : hit.y - y;
    const distance = (hit.x - x) ** 2 + down ** 2;
    if (distance < least) { least = distance; best = i; }
  });
  return best;
}

function showTooltip(text, x, y) {
  const tip = document.getElementById("tooltip");
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = Math.min(Math.max(4, x + 14), window.innerWidth - box.width - 4);
  const above = y - box.height - 12;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${above > 4 ? above : y + 16}px`;
}

function hideTooltip() {
  document.getElementById("tooltip").hidden = true;
}
