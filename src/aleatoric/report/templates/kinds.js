// One entry per kind of figure: how it is drawn, and its data as rows of a table.

const BASE = { left: 54, right: 14, bottom: 42 };

function plotFor(width, entries, height = 250, margins = {}) {
  const top = legendRoom(entries, width);
  return new Plot(width, height + top, { ...BASE, top, ...margins });
}

function drawLines(data, width) {
  const entries = data.lines.map((line, i) => ({ label: line.label, slot: line.slot ?? i }));
  data.marks.forEach((mark, i) => entries.push({ label: mark.label, slot: mark.slot ?? i + 1, grey: mark.slot === null }));
  const plot = plotFor(width, entries);
  const xs = data.lines.flatMap((line) => line.x).concat(data.marks.map((m) => m.x));
  const ys = data.lines.flatMap((line) => line.y.concat(line.high, line.low)).concat(data.marks.map((m) => m.y), [0]);
  const x = scale(...(data.x_ends || extent(xs, 0)), plot.left, plot.right);
  const [low, high] = extent(ys);
  const y = scale(Math.min(...finite(ys)) < 0 ? low : 0, high, plot.bottom, plot.top);
  plot.title(data.title);
  plot.yAxis(y, data.y_label);
  plot.xAxis(x, data.x_label);
  plot.legend(entries);
  data.lines.forEach((line, i) => drawLine(plot, line, line.slot ?? i, x, y, data));
  data.marks.forEach((mark, i) => {
    const style = `line ${slotClass(mark.slot ?? i + 1)} ${mark.slot === null ? "grey" : ""}`;
    const ends = mark.x !== null ? { x1: x(mark.x), x2: x(mark.x), y1: plot.top, y2: plot.bottom } : { x1: plot.left, x2: plot.right, y1: y(mark.y), y2: y(mark.y) };
    plot.add("line", { class: style, ...ends });
    plot.hit((ends.x1 + ends.x2) / 2, (ends.y1 + ends.y2) / 2, `${mark.label}: ${shortNumber(mark.x ?? mark.y)}`);
  });
  return plot;
}

function drawLine(plot, line, slot, x, y, data) {
  if (line.low.length) {
    const upper = line.x.map((v, i) => [x(v), y(line.high[i])]);
    const lower = line.x.map((v, i) => [x(v), y(line.low[i])]).reverse();
    plot.add("path", { class: `area ${slotClass(slot)}`, d: pathOf(upper.concat(lower)) + "Z" });
  }
  plot.add("path", { class: `line ${slotClass(slot)}`, d: pathOf(line.x.map((v, i) => [x(v), y(line.y[i])])) });
  line.x.forEach((v, i) => plot.hit(x(v), y(line.y[i]), `${line.label}: ${data.x_label} ${shortNumber(v)}, ${data.y_label} ${shortNumber(line.y[i])}`));
}

function drawHistograms(data, width) {
  const names = Object.keys(data.heights);
  const entries = names.map((name, i) => ({ label: name + (name in data.means ? ` (mean ${shortNumber(data.means[name])})` : " (undefined)"), slot: i + data.first_slot }));
  const plot = plotFor(width, entries);
  const used = [];
  for (const name of names) data.heights[name].forEach((h, i) => { if (h) used.push(i); });
  const first = Math.max(0, (used.length ? Math.min(...used) : 0) - 1);
  const last = Math.min(data.edges.length - 1, (used.length ? Math.max(...used) : data.edges.length - 2) + 2);
  const x = scale(data.edges[first], data.edges[last], plot.left, plot.right);
  const y = scale(0, extent(names.flatMap((n) => data.heights[n]).concat([0]))[1], plot.bottom, plot.top);
  plot.title(data.title);
  plot.yAxis(y, "density");
  plot.xAxis(x, data.x_label);
  if (x.low < 0 && x.high > 0) plot.add("line", { class: "zero", x1: x(0), x2: x(0), y1: plot.top, y2: plot.bottom });
  plot.legend(entries);
  names.forEach((name, s) => {
    const steps = [];
    for (let i = first; i < last; i++) steps.push([x(data.edges[i]), y(data.heights[name][i])], [x(data.edges[i + 1]), y(data.heights[name][i])]);
    const style = slotClass(s + data.first_slot);
    if (names.length <= 2) plot.add("path", { class: `area ${style}`, d: `${pathOf(steps)}L${plot.right} ${plot.bottom}L${plot.left} ${plot.bottom}Z` });
    plot.add("path", { class: `line ${style}`, d: pathOf(steps) });
    for (let i = first; i < last; i++) plot.hit((x(data.edges[i]) + x(data.edges[i + 1])) / 2, y(data.heights[name][i]), `${name}: ${shortNumber(data.edges[i])} to ${shortNumber(data.edges[i + 1])}, density ${shortNumber(data.heights[name][i])}`);
  });
  return plot;
}

function drawScatter(data, width) {
  const r = data.correlation === null ? "" : ` (r = ${data.correlation.toFixed(2)})`;
  const entries = [{ label: data.trend.label + r, slot: 0, open: false }];
  const plot = plotFor(width, entries);
  const x = scale(...extent(data.x), plot.left, plot.right);
  const y = scale(...extent(data.y), plot.bottom, plot.top);
  plot.title(data.title);
  plot.yAxis(y, data.y_label);
  plot.xAxis(x, data.x_label);
  plot.legend(entries);
  // One path of dots: thousands of elements would be slow.
  plot.add("path", { class: "dots", d: data.x.map((v, i) => `M${x(v).toFixed(1)} ${y(data.y[i]).toFixed(1)}h0`).join("") });
  data.x.forEach((v, i) => plot.hit(x(v), y(data.y[i]), `${data.x_label} ${shortNumber(v)}, ${data.y_label} ${shortNumber(data.y[i])}`));
  plot.add("path", { class: "line s0 d0", d: pathOf(data.trend.x.map((v, i) => [x(v), y(data.trend.y[i])])) });
  data.trend.x.forEach((v, i) => plot.add("circle", { class: "dot s0", cx: x(v), cy: y(data.trend.y[i]), r: 4 }));
  return plot;
}

function drawBoxes(data, width) {
  const names = Object.keys(data.boxes);
  const plot = plotFor(width, [], 270, { bottom: 84 });
  const known = names.map((n) => data.boxes[n]).filter((box) => box.n);
  const y = scale(...extent(known.flatMap((box) => box.ends)), plot.bottom, plot.top);
  const step = (plot.right - plot.left) / Math.max(1, names.length);
  plot.title(data.title);
  plot.yAxis(y, data.y_label);
  names.forEach((name, i) => {
    const box = data.boxes[name], x = plot.left + step * (i + 0.5), half = Math.min(18, step * 0.35);
    plot.text(x + 4, plot.bottom + 14, clipped(name, 10), { anchor: "end", kind: "tick", turn: -40, full: name });
    if (!box.n) return;
    const [q1, median, q3] = box.quartiles;
    plot.add("line", { class: "line s1 d0", x1: x, x2: x, y1: y(box.ends[0]), y2: y(box.ends[1]) });
    plot.add("rect", { class: "box s1", x: x - half, width: 2 * half, y: y(q3), height: Math.max(1, y(q1) - y(q3)) });
    plot.add("line", { class: "line s0 d0", x1: x - half, x2: x + half, y1: y(median), y2: y(median) });
    plot.hit(x, y(median), `${name}: median ${shortNumber(median)}, middle half ${shortNumber(q1)} to ${shortNumber(q3)}, ${box.n} ${data.counted}`);
  });
  plot.add("line", { class: "axis", x1: plot.left, x2: plot.right, y1: plot.bottom, y2: plot.bottom });
  plot.text((plot.left + plot.right) / 2, plot.bottom + 76, clipped(data.x_label, Math.floor(width / CHAR)), { full: data.x_label });
  return plot;
}

function labelRoom(names, width) {
  const longest = Math.max(0, ...names.map((n) => n.length));
  return Math.min(longest * CHAR + 18, width * 0.4);
}

function drawCoefficients(data, width) {
  const left = labelRoom(data.names, width);
  const entries = [{ label: "kept", slot: 0, open: false }, { label: "pruned", slot: 0, open: true }];
  const plot = plotFor(width, entries, 48 + data.names.length * 22, { left });
  const x = scale(...extent(data.low.concat(data.high, [0])), plot.left, plot.right);
  const y = (i) => plot.top + 12 + i * 22;
  plot.title(data.title);
  plot.xAxis(x, data.x_label);
  plot.legend(entries);
  plot.rows(data.names, y, left);
  plot.add("line", { class: "zero", x1: x(0), x2: x(0), y1: plot.top, y2: plot.bottom });
  data.names.forEach((name, i) => {
    plot.add("line", { class: "line s0 d0", x1: x(data.low[i]), x2: x(data.high[i]), y1: y(i), y2: y(i) });
    plot.add("circle", { class: `${data.kept[i] ? "dot" : "open"} s0`, cx: x(data.values[i]), cy: y(i), r: 4.5 });
    plot.hit(x(data.values[i]), y(i), `${name}: ${shortNumber(data.values[i])} [${shortNumber(data.low[i])}, ${shortNumber(data.high[i])}]${data.kept[i] ? "" : ", pruned"}`);
  });
  return plot;
}

function drawBars(data, width) {
  const left = labelRoom(data.words.concat(["(other words)"]), width);
  const entries = data.series.map((one) => ({ label: one.label, slot: one.slot, box: true }));
  const thick = data.series.length > 2 ? 7 : 9, tall = thick * data.series.length + 7;
  const plot = plotFor(width, entries, 46 + data.words.length * tall, { left, right: 40 });
  const most = Math.max(0.02, ...finite(data.series.flatMap((one) => one.values)));
  const x = scale(0, most, plot.left, plot.right);
  plot.xAxis(x, "probability");
  plot.legend(entries);
  plot.rows(data.words, (i) => plot.top + i * tall + (thick * data.series.length) / 2, left);
  data.words.forEach((word, i) => data.series.forEach((one, s) => {
    const value = one.values[i] ?? 0, top = plot.top + i * tall + s * thick;
    const unknown = one.values[i] === null;
    plot.add("rect", { class: `bar ${slotClass(one.slot)}`, "data-word": word, "data-series": one.label, x: plot.left, y: top, width: value ? Math.max(1, x(value) - plot.left) : 0, height: thick - 1 });
    plot.hit(Math.max(plot.left + 1, x(value)), top + thick / 2, `${word} – ${one.label}: ${unknown ? "rarer than its words here" : (100 * value).toFixed(1) + "%"}`, { row: thick / 2 });
  }));
  return plot;
}

function drawReliability(data, width) {
  const entries = [{ label: "model", slot: 0, open: false }, { label: "if calibrated, 95%", slot: 1, box: true }, { label: "tokens", slot: 2, grey: true, box: true }];
  const plot = plotFor(width, entries);
  const x = scale(0, 1, plot.left, plot.right), y = scale(0, 1, plot.bottom, plot.top);
  const most = Math.log1p(Math.max(1, ...data.counts));
  plot.title(data.title);
  plot.legend(entries);
  data.counts.forEach((n, i) => plot.add("rect", { class: "count", x: x(data.edges[i]), width: Math.max(0, x(data.edges[i + 1]) - x(data.edges[i])), y: plot.bottom - (Math.log1p(n) / most) * (plot.bottom - plot.top) * 0.9, height: (Math.log1p(n) / most) * (plot.bottom - plot.top) * 0.9 }));
  plot.yAxis(y, "accuracy");
  plot.xAxis(x, `confidence, ${data.counts.length} bins`);
  plot.add("line", { class: "zero dotted", x1: x(0), y1: y(0), x2: x(1), y2: y(1) });
  const points = [];
  data.counts.forEach((n, i) => {
    if (!n) return;
    const at = x(data.confidence[i]);
    plot.add("line", { class: "band s1", x1: at, x2: at, y1: y(data.low[i]), y2: y(data.high[i]) });
    points.push([at, y(data.accuracy[i])]);
    plot.hit(at, y(data.accuracy[i]), `confidence ${shortNumber(data.confidence[i])}, accuracy ${shortNumber(data.accuracy[i])}, ${shortNumber(n)} tokens; if calibrated ${shortNumber(data.low[i])} to ${shortNumber(data.high[i])}`);
  });
  plot.add("path", { class: "line s0 d0", d: pathOf(points) });
  for (const [cx, cy] of points) plot.add("circle", { class: "dot s0", cx, cy, r: 4 });
  return plot;
}

function drawDots(data, width) {
  const names = Object.keys(data.values);
  const entries = names.map((label, slot) => ({ label, slot, open: label === data.reference }));
  const left = labelRoom(data.rows, width), tall = Math.max(24, names.length * 11 + 10);
  const plot = plotFor(width, entries, 46 + data.rows.length * tall, { left });
  const all = names.flatMap((n) => data.low[n].concat(data.high[n], data.values[n])).concat([0]);
  const x = scale(...extent(all), plot.left, plot.right);
  plot.title(data.title);
  plot.xAxis(x, data.x_label);
  plot.legend(entries);
  plot.rows(data.rows, (i) => plot.top + (i + 0.5) * tall, left);
  plot.add("line", { class: "zero", x1: x(0), x2: x(0), y1: plot.top, y2: plot.bottom });
  for (let i = 1; i < data.rows.length; i++) plot.add("line", { class: "grid", x1: 8, x2: plot.right, y1: plot.top + i * tall, y2: plot.top + i * tall });
  data.rows.forEach((row, i) => names.forEach((name, s) => {
    const value = data.values[name][i];
    if (value === null) return;
    const y = plot.top + i * tall + ((s + 0.5) * tall) / names.length;
    plot.add("line", { class: `line thin ${slotClass(s)} d0`, x1: x(data.low[name][i]), x2: x(data.high[name][i]), y1: y, y2: y });
    plot.add("circle", { class: `${name === data.reference ? "open" : "dot"} ${slotClass(s)}`, cx: x(value), cy: y, r: 4.5 });
    plot.hit(x(value), y, `${row}, ${name}: ${shortNumber(value)} [${shortNumber(data.low[name][i])}, ${shortNumber(data.high[name][i])}]`);
  }));
  return plot;
}

function drawHeatMap(data, width) {
  const left = labelRoom(data.rows, width) + 18, tall = data.rows.length > 30 ? 12 : 16;
  const plot = plotFor(width, [], 60 + data.rows.length * tall, { left, top: 46 });
  const longest = Math.max(1, ...data.values.map((row) => row.length));
  const step = (plot.right - plot.left) / longest;
  const [low, high] = [0, Math.max(1e-9, ...finite(data.values.flat()))];
  plot.title(data.title);
  heatKey(plot, high, data.value_label);
  data.rows.forEach((name, r) => {
    const top = plot.top + r * tall;
    plot.text(plot.left - 6, top + tall - 3, clipped(name, 14), { anchor: "end", kind: "tick", full: name });
    data.values[r].forEach((value, c) => {
      const shade = value === null ? 0 : (value - low) / (high - low);
      const cell = plot.add("rect", { class: "heat", x: plot.left + c * step, y: top, width: Math.max(1, step - 0.6), height: tall - 1, "data-context-id": data.ids[r][c] });
      cell.setAttribute("fill-opacity", value === null ? 0 : (0.06 + 0.94 * shade).toFixed(3));
      plot.hit(plot.left + (c + 0.5) * step, top + tall / 2, `${data.y_label} ${name}, ${data.ids[r][c]}: ${data.value_label} ${shortNumber(value)}`, { link: { context: data.ids[r][c], system: data.title } });
    });
  });
  plot.text((plot.left + plot.right) / 2, plot.bottom + 24, data.x_label);
  plot.text(13, (plot.top + plot.bottom) / 2, data.y_label, { turn: -90 });
  return plot;
}

function heatKey(plot, high, label) {
  for (let i = 0; i < 20; i++) plot.add("rect", { class: "heat", x: plot.left + i * 6, y: 26, width: 6, height: 9, "fill-opacity": (0.06 + (0.94 * i) / 19).toFixed(3) });
  plot.text(plot.left - 6, 35, "0", { anchor: "end", kind: "tick" });
  plot.text(plot.left + 126, 35, `${label} ${shortNumber(high)}`, { anchor: "start", kind: "tick" });
}

function drawPoints(data, width) {
  const entries = data.points.map((point, slot) => ({ label: point.label, slot, open: point.label === data.reference }));
  const plot = plotFor(width, entries);
  const x = scale(...extent(data.points.flatMap((p) => p.x_ends).concat([0])), plot.left, plot.right);
  const y = scale(...extent(data.points.flatMap((p) => p.y_ends).concat([0])), plot.bottom, plot.top);
  plot.title(data.title);
  plot.yAxis(y, data.y_label);
  plot.xAxis(x, data.x_label);
  plot.legend(entries);
  data.points.forEach((point, slot) => {
    const style = `line thin ${slotClass(slot)} d0`;
    plot.add("line", { class: style, x1: x(point.x_ends[0]), x2: x(point.x_ends[1]), y1: y(point.y), y2: y(point.y) });
    plot.add("line", { class: style, x1: x(point.x), x2: x(point.x), y1: y(point.y_ends[0]), y2: y(point.y_ends[1]) });
    plot.add("circle", { class: `${point.label === data.reference ? "open" : "dot"} ${slotClass(slot)}`, cx: x(point.x), cy: y(point.y), r: 5 });
    plot.hit(x(point.x), y(point.y), `${point.label}: ${data.x_label} ${shortNumber(point.x)}, ${data.y_label} ${shortNumber(point.y)}`);
  });
  return plot;
}

const rowsOf = {
  Lines: (d) => [["curve", d.x_label, d.y_label, "low", "high"], ...d.lines.flatMap((l) => l.x.map((x, i) => [l.label, x, l.y[i], l.low[i] ?? "", l.high[i] ?? ""])), ...d.marks.map((m) => [m.label, m.x ?? "", m.y ?? "", "", ""])],
  Histograms: (d) => [["series", "from", "to", "density"], ...Object.entries(d.heights).flatMap(([name, heights]) => heights.map((h, i) => [name, d.edges[i], d.edges[i + 1], h]))],
  Scatter: (d) => [[d.x_label, d.y_label], ...d.x.map((x, i) => [x, d.y[i]])],
  Boxes: (d) => [[d.x_label, d.counted, "low", "q1", "median", "q3", "high"], ...Object.entries(d.boxes).map(([name, b]) => (b.n ? [name, b.n, b.ends[0], ...b.quartiles, b.ends[1]] : [name, 0, "", "", "", "", ""]))],
  Coefficients: (d) => [["name", d.x_label, "low", "high", "kept"], ...d.names.map((n, i) => [n, d.values[i], d.low[i], d.high[i], d.kept[i]])],
  Bars: (d) => [["word", ...d.series.map((s) => s.label)], ...d.words.map((w, i) => [w, ...d.series.map((s) => s.values[i] ?? "")])],
  Reliability: (d) => [["from", "to", "tokens", "confidence", "accuracy", "low", "high"], ...d.counts.map((n, i) => [d.edges[i], d.edges[i + 1], n, d.confidence[i], d.accuracy[i], d.low[i], d.high[i]])],
  Dots: (d) => [["row", "series", d.x_label, "low", "high"], ...d.rows.flatMap((row, i) => Object.keys(d.values).map((s) => [row, s, d.values[s][i], d.low[s][i], d.high[s][i]]))],
  HeatMap: (d) => [[d.y_label, d.x_label, "item", d.value_label], ...d.rows.flatMap((row, r) => d.values[r].map((v, c) => [row, c + 1, d.ids[r][c], v]))],
  Points: (d) => [["name", d.x_label, "x low", "x high", d.y_label, "y low", "y high"], ...d.points.map((p) => [p.label, p.x, ...p.x_ends, p.y, ...p.y_ends])],
};

const KINDS = {
  Lines: { draw: drawLines, rows: rowsOf.Lines },
  Histograms: { draw: drawHistograms, rows: rowsOf.Histograms },
  Scatter: { draw: drawScatter, rows: rowsOf.Scatter },
  Boxes: { draw: drawBoxes, rows: rowsOf.Boxes },
  Coefficients: { draw: drawCoefficients, rows: rowsOf.Coefficients },
  Bars: { draw: drawBars, rows: rowsOf.Bars },
  Reliability: { draw: drawReliability, rows: rowsOf.Reliability },
  Dots: { draw: drawDots, rows: rowsOf.Dots },
  HeatMap: { draw: drawHeatMap, rows: rowsOf.HeatMap },
  Points: { draw: drawPoints, rows: rowsOf.Points },
};
