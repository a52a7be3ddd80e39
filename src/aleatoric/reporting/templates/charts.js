"use strict";
// Small charts in SVG, without a library: the page stays small and opens quickly.
// A chart is an <svg> and a list of hits: points that the pointer or the arrow keys can reach.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";
const N_SLOTS = 8;
const CHAR = 6.6; // the mean width of a character at 12 px
const MOST_COVERED = 36; // how much a direct label may cover before a legend is clearer

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
// A text with both ends: systems and probes are at the end.
const clippedWithin = (text, n) => (text.length > n ? `${text.slice(0, Math.floor(n / 2))}…${text.slice(1 + Math.floor(n / 2) - n)}` : text);
const finite = (values) => values.filter((v) => v !== null && v !== undefined && isFinite(v));
const slotClass = (slot) => `s${slot % N_SLOTS} d${slot % 5}`;

// Names of systems without the hashes of their files, where they stay distinct.
function shortNames(names) {
  const short = names.map((name) => name.replace(/@[0-9a-f]{12}\b/, ""));
  return new Set(short).size === new Set(names).size ? short : names;
}

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
    this.taken = []; // places of texts that no name may cover
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
    if (!content) return;
    const [name] = shortNames([content]), wide = CHAR * 1.18;
    const left = this.left + name.length * wide < this.width ? this.left : 8;
    this.text(left, 14, clippedWithin(name, Math.max(12, Math.floor((this.width - left) / wide))), { anchor: "start", kind: "title", full: content });
    this.taken.push([left, 0, left + name.length * wide, 20]);
  }

  xAxis(x, label) {
    const about = Math.max(2, Math.floor((this.right - this.left) / 70));
    for (const tick of niceTicks(x.low, x.high, about)) {
      this.add("line", { class: "grid", x1: x(tick), x2: x(tick), y1: this.top, y2: this.bottom });
      this.text(x(tick), this.bottom + 15, shortNumber(tick), { kind: "tick" });
    }
    this.add("line", { class: "axis", x1: this.left, x2: this.right, y1: this.bottom, y2: this.bottom });
    this.xLabel(label, this.bottom + 32);
  }

  // Below the axis, in as many lines as it needs; labelRoom reserves their space.
  xLabel(label, y) {
    const half = Math.min(label.length * CHAR, this.width) / 2;
    const middle = Math.max(half, Math.min((this.left + this.right) / 2, this.width - half));
    wrapped(label, this.width).forEach((line, i) => this.text(middle, y + 14 * i, line, { kind: "axis-label" }));
  }

  yAxis(y, label) {
    const about = Math.max(2, Math.floor((this.bottom - this.top) / 45));
    for (const tick of niceTicks(y.low, y.high, about)) {
      this.add("line", { class: "grid", x1: this.left, x2: this.right, y1: y(tick), y2: y(tick) });
      this.text(this.left - 6, y(tick) + 4, shortNumber(tick), { anchor: "end", kind: "tick" });
    }
    const middle = (this.top + this.bottom) / 2;
    if (label) this.text(13, middle, clipped(label, Math.floor((this.bottom - this.top) / CHAR) + 8), { turn: -90, kind: "axis-label", full: label });
  }

  // Names of rows: left of the drawing in one or two lines, or above each row where they do not fit.
  rows(names, y, room) {
    if (room.hidden) return;
    shortNames(names).forEach((name, i) => {
      const shown = clippedWithin(name, Math.floor((this.width - 12) / CHAR)), lines = wrapped(name, room.left).slice(0, 2);
      if (room.above) this.text(8, y(i) - room.above, shown, { anchor: "start", kind: "tick", full: names[i] });
      else lines.forEach((line, k) => this.text(this.left - 8, y(i) + 4 + 13 * k - 6.5 * (lines.length - 1), line, { anchor: "end", kind: "tick", full: names[i] }));
    });
  }

  // The legend above the drawing; legendRoom reserves its space.
  legend(entries) {
    let x = 10, y = 34;
    for (const [entry, shown] of legendNames(entries)) {
      const wide = 42 + shown.length * CHAR;
      if (x > 10 && x + wide > this.width - 6) { x = 10; y += 18; }
      const style = `${slotClass(entry.slot)} ${entry.grey ? "grey" : ""} ${entry.dashed ? "dashed" : ""}`;
      if (entry.box) this.add("rect", { class: `bar ${style}`, x, y: y - 9, width: 18, height: 10 });
      else {
        this.add("line", { class: `line ${style} ${entry.open === undefined ? "" : "thin"}`, x1: x, x2: x + 20, y1: y - 4, y2: y - 4 });
        if (entry.open !== undefined) this.add("circle", { class: `${entry.open ? "open" : "dot"} ${style}`, cx: x + 10, cy: y - 4, r: 4 });
      }
      this.text(x + 25, y, shown, { anchor: "start", kind: "tick", full: entry.label });
      x += wide;
    }
  }
}

const legendNames = (entries) => shortNames(entries.map(({ label }) => label)).map((name, i) => [entries[i], clippedWithin(name, 40)]);

function legendRoom(entries, width) {
  let x = 10, rows = entries.length ? 1 : 0;
  for (const [, shown] of legendNames(entries)) {
    const wide = 42 + shown.length * CHAR;
    if (x > 10 && x + wide > width - 6) { x = 10; rows++; }
    x += wide;
  }
  return rows ? 26 + rows * 18 : 20;
}

// A text as lines that fit a width.
function wrapped(text, width) {
  const fits = Math.max(12, Math.floor((width - 16) / CHAR)), lines = [""];
  for (const word of text.split(" ")) {
    const line = lines[lines.length - 1];
    if (line && line.length + 1 + word.length > fits) lines.push(clipped(word, fits));
    else lines[lines.length - 1] = clipped(line ? `${line} ${word}` : word, fits);
  }
  return lines;
}

// Points along a path, close enough together to see what a label would cover.
function along(points) {
  const found = [];
  points.forEach(([x, y], i) => {
    const [x0, y0] = i ? points[i - 1] : [x, y];
    const n = Math.max(1, Math.ceil(Math.max(Math.abs(x - x0), Math.abs(y - y0)) / 6));
    for (let k = 1; k <= n; k++) found.push([x0 + ((x - x0) * k) / n, y0 + ((y - y0) * k) / n]);
  });
  return found;
}

const overlap = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
const covers = (box, [x, y]) => x > box[0] - 2 && x < box[2] + 2 && y > box[1] && y < box[3];

// Write each curve's name beside it, where it covers least; returns whether all have a place.
function labelDirectly(plot, curves, drawn = []) {
  const paths = curves.map((curve) => along(curve.points));
  const every = paths.concat(drawn.filter((curve) => !curves.includes(curve)).map((curve) => along(curve.points))).flat();
  return curves.every((curve, i) => {
    const width = curve.label.length * CHAR * 1.08;
    let best = null;
    for (const [x, y] of paths[i].filter((_, k) => k % 3 === 0)) {
      for (const [dx, dy] of [[0, -9], [0, 20], [width / 2 + 9, 4], [-width / 2 - 9, 4]]) {
        const box = [x + dx - width / 2, y + dy - 11, x + dx + width / 2, y + dy + 4];
        if (box[0] < plot.left || box[2] > plot.right + 8 || box[1] < plot.top - 14 || box[3] > plot.bottom - 2) continue;
        if (plot.taken.some((other) => overlap(box, other))) continue;
        const hidden = every.filter((point) => covers(box, point)).length;
        const near = every.filter((point) => covers([box[0] - 8, box[1] - 14, box[2] + 8, box[3] + 14], point)).length - paths[i].length / 50;
        const cost = hidden * 4 + near + (dx ? 2 : 0);
        if (best === null || cost < best.cost) best = { cost, box, x: x + dx, y: y + dy };
      }
    }
    if (best === null || best.cost > MOST_COVERED) return false;
    plot.taken.push(best.box);
    plot.text(best.x, best.y, curve.label, { kind: `name ${curve.slot === null ? "grey" : slotClass(curve.slot)}` });
    return true;
  });
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

// Panels name their curves directly, or all of them in legends.
function drawPanels(panels, width) {
  const draw = (isListed) => panels.map((panel) => KINDS[panel.kind].draw(panel, width + (panel.room?.more ?? 0), isListed));
  const plots = draw(false);
  return plots.some((plot) => plot.isCrowded) ? draw(true) : plots;
}

// Rows that stand beside the same rows are named once, in the first column, which is wider.
function withRowNames(panels, width, columns) {
  const isSame = (panel, i) => i % columns > 0 && panel.kind === "Dots" && String(panel.rows) === String(panels[i - 1].rows);
  if (!panels.some(isSame)) return panels;
  const longest = Math.max(...panels.flatMap((panel) => shortNames(panel.rows ?? [])).map((name) => name.length));
  const more = Math.min(longest * CHAR + 4, width * 0.25);
  return panels.map((panel, i) => ({ ...panel, room: isSame(panel, i) ? { left: BASE.right, above: 0, hidden: true } : i % columns ? undefined : { left: BASE.right + more, above: 0, more } }));
}

// A whole figure as one <svg>; panels stand side by side if there is room.
function drawFigure(picture, width) {
  // The title of a single picture is the heading of its figure.
  const pictures = picture.kind === "Panels" ? picture.pictures : [{ ...picture, title: "" }];
  const wanted = picture.kind === "Panels" ? picture.columns : 1;
  const columns = Math.max(1, Math.min(wanted, Math.floor(width / 290)));
  const panels = withRowNames(pictures, width, columns), more = panels[0].room?.more ?? 0;
  const gutter = 28, own = (width - more - gutter * (columns - 1)) / columns;
  const figure = svg("svg", { xmlns: SVG_NAMESPACE, class: "chart", tabindex: 0, role: "img" });
  const hits = [];
  let top = 0, tallest = 0;
  drawPanels(panels, own).forEach((plot, i) => {
    const column = i % columns, left = column * (own + gutter) + (column ? more : 0);
    if (column === 0) { top += tallest; tallest = 0; }
    plot.group.setAttribute("transform", `translate(${left} ${top})`);
    figure.append(plot.group);
    for (const hit of plot.hits) hits.push({ ...hit, x: hit.x + left, y: hit.y + top });
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
