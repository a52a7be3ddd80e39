// One entry per kind of figure: how it is drawn, and its data as rows of a table.

const BASE = { left: 54, right: 14, bottom: 42 };
const MOST_NAMED = 7; // curves that are named directly; more of them get a legend

function plotFor(width, entries, height = 0, margins = {}, xLabel = "") {
  const top = legendRoom(entries, width) + (margins.above ?? 0);
  const more = 14 * (wrapped(xLabel, width).length - 1), bottom = (margins.bottom ?? BASE.bottom) + more;
  const tall = height || Math.min(330, Math.max(240, width * 0.3));
  return new Plot(width, tall + top + more, { ...BASE, top, ...margins, bottom });
}

// Curves, straight lines and rows of points; `entries` is the legend, empty if names are direct.
function drawLines(data, width, isListed) {
  const curves = data.lines.map((line, i) => ({ ...line, slot: line.slot ?? i }));
  const entries = isListed ? curves.filter((line) => !line.faded).map(({ label, slot }) => ({ label, slot, dashed: true })) : [];
  const known = curves.filter((line) => !line.faded), faded = curves.filter((line) => line.faded);
  const drawn = known.filter((line) => !line.points.length), few = known.filter((line) => line.points.length);
  const plot = drawn.length || !few.length ? plotFor(width, entries, faded.length ? 170 : 0, {}, data.x_label) : plotFor(width, entries, 66 + 26 * few.length, {}, data.x_label);
  const xs = curves.flatMap((line) => line.x.concat(line.points)).concat(data.marks.map((m) => m.x));
  const ys = drawn.flatMap((line) => line.y.concat(line.high, line.low)).concat(data.marks.map((m) => m.y), [0]);
  const x = scale(...(data.x_ends || extent(xs, few.length ? 0.04 : 0)), plot.left, plot.right);
  const [low, high] = extent(ys);
  const y = scale(Math.min(...finite(ys)) < 0 ? low : 0, data.y_end ?? high, plot.bottom, plot.top);
  plot.title(data.title);
  if (drawn.length) plot.yAxis(y, data.y_label);
  plot.xAxis(x, data.x_label);
  plot.legend(entries);
  for (const line of faded) plot.add("path", { class: "line faded", d: pathOf(line.x.map((v, i) => [x(v), y(line.y[i])])) });
  const guides = data.marks.map((mark) => drawGuide(plot, mark, x, y));
  for (const line of drawn) drawLine(plot, line, x, y, data, isListed);
  few.forEach((line, row) => drawFew(plot, line.label, line.slot, line.points, x, row, few.length));
  const paths = drawn.filter((line) => line.x.length).map((line) => ({ ...line, points: line.x.map((v, i) => [x(v), y(line.y[i])]) }));
  plot.isCrowded = !isListed && known.length > MOST_NAMED;
  plot.isCrowded ||= !labelDirectly(plot, isListed ? guides : [...guides, ...paths], paths);
  return plot;
}

function drawLine(plot, line, x, y, data, isDashed) {
  const style = slotClass(line.slot);
  if (line.low.length) {
    const upper = line.x.map((v, i) => [x(v), y(line.high[i])]);
    const lower = line.x.map((v, i) => [x(v), y(line.low[i])]).reverse();
    plot.add("path", { class: `area ${style}`, d: pathOf(upper.concat(lower)) + "Z" });
  }
  plot.add("path", { class: `line ${style} ${isDashed ? "dashed" : ""}`, d: pathOf(line.x.map((v, i) => [x(v), y(line.y[i])])) });
  line.x.forEach((v, i) => plot.hit(x(v), y(line.y[i]), `${line.label}: ${data.x_label} ${shortNumber(v)}, ${data.y_label} ${shortNumber(line.y[i])}`));
}

// A straight line; returns its path, to be named.
function drawGuide(plot, mark, x, y) {
  const style = mark.slot === null ? "grey" : slotClass(mark.slot);
  const ends = mark.x === null ? { x1: plot.left, x2: plot.right, y1: y(mark.y), y2: y(mark.y) } : { x1: x(mark.x), x2: x(mark.x), y1: plot.top, y2: plot.bottom };
  plot.add("line", { class: `line thin ${style}`, ...ends });
  plot.hit((ends.x1 + ends.x2) / 2, (ends.y1 + ends.y2) / 2, `${mark.label}: ${shortNumber(mark.x ?? mark.y)}`);
  return { label: mark.label, slot: mark.slot, points: [[ends.x1, ends.y1], [ends.x2, ends.y2]] };
}

// Values that are too few for a density: a row of points with its name.
function drawFew(plot, label, slot, values, x, row, rows) {
  const at = plot.bottom - 10 - 26 * (rows - 1 - row), wide = label.length * CHAR * 1.08;
  const left = Math.min(...values.map(x)), right = Math.max(...values.map(x));
  for (const value of values) {
    plot.add("circle", { class: `faint ${slotClass(slot)}`, cx: x(value), cy: at, r: 4.5 });
    plot.hit(x(value), at, `${label}: ${shortNumber(value)}`);
  }
  const middle = Math.min(Math.max((left + right) / 2, plot.left + wide / 2), plot.right - wide / 2);
  plot.text(middle, at - 9, label, { kind: `name ${slotClass(slot)}` });
  plot.taken.push([left - 5, at - 20, right + 5, at + 6], [middle - wide / 2, at - 20, middle + wide / 2, at]);
}

function drawHistograms(data, width, isListed) {
  const curves = Object.keys(data.heights).map((name, i) => ({ name, slot: data.slots[i], label: name + (name in data.means ? ` (mean ${shortNumber(data.means[name])})` : " (undefined)") }));
  const drawn = curves.filter(({ name }) => !(name in data.points)), few = curves.filter(({ name }) => name in data.points);
  const entries = isListed ? curves.map(({ label, slot }) => ({ label, slot, dashed: true })) : [];
  const plot = drawn.length ? plotFor(width, entries, 0, {}, data.x_label) : plotFor(width, entries, 66 + 26 * few.length, {}, data.x_label);
  const first = data.edges.findIndex((edge, i) => data.edges[i + 1] > data.x_ends[0]), last = data.edges.findLastIndex((edge) => edge <= data.x_ends[1]);
  const x = scale(...data.x_ends, plot.left, plot.right);
  const y = scale(0, data.y_end ?? extent(drawn.flatMap(({ name }) => data.heights[name]).concat([0]))[1], plot.bottom, plot.top);
  plot.title(data.title);
  if (drawn.length) plot.yAxis(y, "density");
  plot.xAxis(x, data.x_label);
  if (x.low < 0 && x.high > 0) plot.add("line", { class: "zero", x1: x(0), x2: x(0), y1: plot.top, y2: plot.bottom });
  plot.legend(entries);
  for (const curve of drawn) {
    curve.points = [];
    for (let i = first; i < last; i++) {
      const height = data.heights[curve.name][i];
      curve.points.push([x(data.edges[i]), y(height)], [x(data.edges[i + 1]), y(height)]);
      plot.hit((x(data.edges[i]) + x(data.edges[i + 1])) / 2, y(height), `${curve.name}: ${shortNumber(data.edges[i])} to ${shortNumber(data.edges[i + 1])}, density ${shortNumber(height)}`);
    }
    const style = slotClass(curve.slot);
    if (drawn.length <= 2) plot.add("path", { class: `area ${style}`, d: `${pathOf(curve.points)}L${x(data.edges[last])} ${plot.bottom}L${x(data.edges[first])} ${plot.bottom}Z` });
    plot.add("path", { class: `line ${style} ${isListed ? "dashed" : ""}`, d: pathOf(curve.points) });
  }
  few.forEach((curve, row) => drawFew(plot, curve.label, curve.slot, data.points[curve.name], x, row, few.length));
  plot.isCrowded = !isListed && (curves.length > MOST_NAMED || !labelDirectly(plot, drawn));
  return plot;
}

function drawScatter(data, width) {
  const plot = plotFor(width, [], 0, {}, data.x_label);
  const x = scale(...extent(data.x), plot.left, plot.right);
  const y = scale(...extent(data.y), plot.bottom, plot.top);
  plot.title(data.title);
  plot.yAxis(y, data.y_label);
  plot.xAxis(x, data.x_label);
  // One path of dots: thousands of elements would be slow.
  plot.add("path", { class: "dots", d: data.x.map((v, i) => `M${x(v).toFixed(1)} ${y(data.y[i]).toFixed(1)}h0`).join("") });
  data.x.forEach((v, i) => plot.hit(x(v), y(data.y[i]), `${data.x_label} ${shortNumber(v)}, ${data.y_label} ${shortNumber(data.y[i])}`));
  plot.add("path", { class: "line s1", d: pathOf(data.trend.x.map((v, i) => [x(v), y(data.trend.y[i])])) });
  data.trend.x.forEach((v, i) => plot.add("circle", { class: "dot s1", cx: x(v), cy: y(data.trend.y[i]), r: 4 }));
  const r = data.correlation === null ? "" : `, r = ${data.correlation.toFixed(2)}`;
  plot.text(plot.right, plot.top - 6, data.trend.label + r, { anchor: "end", kind: "name s1" });
  return plot;
}

// Three bars per system: people with people, the system with itself, the system with people.
function drawAgreementBars(data, width) {
  const series = Object.keys(data.values), tall = 24, top = data.title ? 30 : 4, names = shortNames(data.rows);
  const columns = data.rows.length > 1 && width > 860 ? 2 : 1, own = width / columns - (columns - 1) * 14;
  // A note stands beside its name, or below where a name is too long.
  const isBelow = names.some((name, i) => name.length * CHAR * 1.2 + data.notes[i].length * CHAR + 12 > own);
  const head = isBelow ? 42 : 26, group = head + tall * series.length + 14;
  const plot = new Plot(width, top + group * Math.ceil(data.rows.length / columns), { left: 0, right: 0, top, bottom: 0 });
  const room = Math.max(...series.map((name) => name.length)) * CHAR + 10;
  const most = Math.max(1e-9, ...finite(series.flatMap((name) => data.high[name].concat(data.values[name]))));
  const x = scale(0, most, room, own - 46);
  plot.title(data.title);
  data.rows.forEach((row, i) => {
    const left = (i % columns) * (own + 28), y = top + group * Math.floor(i / columns);
    plot.text(left, y + 14, clippedWithin(names[i], Math.floor(own / (CHAR * 1.2))), { anchor: "start", kind: "title", full: row });
    plot.text(left + (isBelow ? 0 : own), y + head - 12, data.notes[i], { anchor: isBelow ? "start" : "end", kind: "tick" });
    plot.add("line", { class: "grid", x1: left, x2: left + own, y1: y + head - 6, y2: y + head - 6 });
    const people = series.find((name) => name.startsWith("H "));
    const level = people && data.values[people][i];
    if (level !== undefined && level !== null) plot.add("line", { class: "level", x1: left + x(level), x2: left + x(level), y1: y + head, y2: y + head + tall * series.length });
    series.forEach((name, s) => drawAgreement(plot, data, { name, i, left, x, y: y + head + s * tall }));
  });
  return plot;
}

function drawAgreement(plot, data, { name, i, left, x, y }) {
  const value = data.values[name][i], low = data.low[name][i], high = data.high[name][i];
  plot.text(left, y + 15, name.slice(0, 1), { anchor: "start", kind: "value" });
  plot.text(left + 16, y + 15, name.slice(2), { anchor: "start", kind: "tick" });
  if (value === null) { plot.text(left + x(0), y + 15, "undefined", { anchor: "start", kind: "tick" }); return; }
  plot.add("rect", { class: `bar side-${name[0]}`, x: left + x(0), y: y + 3, width: Math.max(1, x(value) - x(0)), height: 16, rx: 1.5 });
  const ends = { x1: left + x(low), x2: left + x(high), y1: y + 11, y2: y + 11 };
  if (high > low) ["whisker under", "whisker"].forEach((kind) => plot.add("line", { class: kind, ...ends }));
  plot.text(left + x(Math.max(high, value)) + 6, y + 15, value.toFixed(3), { anchor: "start", kind: "value" });
  plot.hit(left + x(value), y + 11, `${data.rows[i]}, ${name}: ${shortNumber(value)} [${shortNumber(low)}, ${shortNumber(high)}]`, { row: 11 });
}

function drawBoxes(data, width) {
  const names = Object.keys(data.boxes);
  const plot = plotFor(width, [], 290, { bottom: 84 }, data.x_label);
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
    plot.add("line", { class: "line s1", x1: x, x2: x, y1: y(box.ends[0]), y2: y(box.ends[1]) });
    plot.add("rect", { class: "box s1", x: x - half, width: 2 * half, y: y(q3), height: Math.max(1, y(q1) - y(q3)) });
    plot.add("line", { class: "line s0", x1: x - half, x2: x + half, y1: y(median), y2: y(median) });
    plot.hit(x, y(median), `${name}: median ${shortNumber(median)}, middle half ${shortNumber(q1)} to ${shortNumber(q3)}, ${box.n} ${data.counted}`);
  });
  plot.add("line", { class: "axis", x1: plot.left, x2: plot.right, y1: plot.bottom, y2: plot.bottom });
  plot.xLabel(data.x_label, plot.bottom + 76);
  return plot;
}

// Room for the names of rows: left of them, or above each where they would take too much.
function labelRoom(names, width, above) {
  const wanted = Math.max(0, ...shortNames(names).map((n) => n.length)) * CHAR + 18;
  return wanted <= width * 0.46 ? { left: wanted, above: 0 } : { left: 14, above };
}

function drawCoefficients(data, width) {
  const room = labelRoom(data.names, width, 9), tall = room.above ? 30 : 22;
  const plot = plotFor(width, [], 48 + data.names.length * tall, { left: room.left }, data.x_label);
  const x = scale(...extent(data.low.concat(data.high, [0])), plot.left, plot.right);
  const y = (i) => plot.top + (room.above ? 18 : 12) + i * tall;
  plot.title(data.title);
  plot.xAxis(x, data.x_label);
  plot.rows(data.names, y, room);
  plot.add("line", { class: "zero", x1: x(0), x2: x(0), y1: plot.top, y2: plot.bottom });
  data.names.forEach((name, i) => {
    plot.add("line", { class: "line s0", x1: x(data.low[i]), x2: x(data.high[i]), y1: y(i), y2: y(i) });
    plot.add("circle", { class: `${data.kept[i] ? "dot" : "open"} s0`, cx: x(data.values[i]), cy: y(i), r: 4.5 });
    plot.hit(x(data.values[i]), y(i), `${name}: ${shortNumber(data.values[i])} [${shortNumber(data.low[i])}, ${shortNumber(data.high[i])}]${data.kept[i] ? "" : ", pruned"}`);
  });
  return plot;
}

function drawBars(data, width) {
  const left = Math.min(Math.max(...data.words.map((word) => word.length), 8) * CHAR + 18, width * 0.4);
  const entries = data.series.map((one) => ({ label: one.label, slot: one.slot, box: true }));
  const thick = data.series.length > 2 ? 7 : 9, tall = thick * data.series.length + 7;
  const plot = plotFor(width, entries, 46 + data.words.length * tall, { left, right: 40 });
  const most = Math.max(0.02, ...finite(data.series.flatMap((one) => one.values)));
  const x = scale(0, most, plot.left, plot.right);
  plot.xAxis(x, "probability");
  plot.legend(entries);
  plot.rows(data.words, (i) => plot.top + i * tall + (thick * data.series.length) / 2, { left, above: 0 });
  data.words.forEach((word, i) => data.series.forEach((one, s) => {
    const value = one.values[i] ?? 0, top = plot.top + i * tall + s * thick;
    const unknown = one.values[i] === null;
    plot.add("rect", { class: `bar ${slotClass(one.slot)}`, "data-word": word, "data-series": one.label, x: plot.left, y: top, width: value ? Math.max(1, x(value) - plot.left) : 0, height: thick - 1 });
    plot.hit(Math.max(plot.left + 1, x(value)), top + thick / 2, `${word} – ${one.label}: ${unknown ? "rarer than its words here" : (100 * value).toFixed(1) + "%"}`, { row: thick / 2 });
  }));
  return plot;
}

function drawReliability(data, width) {
  const plot = plotFor(width, [], Math.min(400, Math.max(260, width * 0.8)));
  const x = scale(0, 1, plot.left, plot.right), y = scale(0, 1, plot.bottom, plot.top);
  const most = Math.log1p(Math.max(1, ...data.counts));
  plot.title(data.title);
  data.counts.forEach((n, i) => plot.add("rect", { class: "count", x: x(data.edges[i]), width: Math.max(0, x(data.edges[i + 1]) - x(data.edges[i])), y: plot.bottom - (Math.log1p(n) / most) * (plot.bottom - plot.top) * 0.9, height: (Math.log1p(n) / most) * (plot.bottom - plot.top) * 0.9 }));
  plot.yAxis(y, "accuracy");
  plot.xAxis(x, `confidence, ${data.counts.length} bins`);
  plot.add("line", { class: "zero", x1: x(0), y1: y(0), x2: x(1), y2: y(1) });
  const points = [];
  data.counts.forEach((n, i) => {
    if (!n) return;
    const at = x(data.confidence[i]);
    plot.add("line", { class: "band s1", x1: at, x2: at, y1: y(data.low[i]), y2: y(data.high[i]) });
    points.push([at, y(data.accuracy[i])]);
    plot.hit(at, y(data.accuracy[i]), `confidence ${shortNumber(data.confidence[i])}, accuracy ${shortNumber(data.accuracy[i])}, ${shortNumber(n)} tokens; if calibrated ${shortNumber(data.low[i])} to ${shortNumber(data.high[i])}`);
  });
  plot.add("path", { class: "line s0", d: pathOf(points) });
  for (const [cx, cy] of points) plot.add("circle", { class: "dot s0", cx, cy, r: 4 });
  return plot;
}

function drawDots(data, width) {
  const names = Object.keys(data.values);
  const entries = names.length > 1 ? names.map((label, s) => ({ label, slot: data.slots[s], open: label === data.reference })) : [];
  const tall = Math.max(26, names.length * 11 + 10), room = data.room ?? labelRoom(data.rows, width, tall / 2 + 2), step = tall + (room.above ? 14 : 0);
  const plot = plotFor(width, entries, 46 + data.rows.length * step, { left: room.left }, data.x_label);
  const all = names.flatMap((n) => data.low[n].concat(data.high[n], data.values[n])).concat([0]);
  const x = scale(...(data.x_ends || extent(all)), plot.left, plot.right);
  plot.title(data.title);
  plot.xAxis(x, data.x_label);
  plot.legend(entries);
  const y0 = (i) => plot.top + i * step + (step - tall);
  plot.rows(data.rows, (i) => y0(i) + tall / 2, room);
  // Names above rows interrupt the line at 0.
  data.rows.forEach((_, i) => plot.add("line", { class: "zero", x1: x(0), x2: x(0), y1: y0(i), y2: y0(i) + tall }));
  for (let i = 1; i < data.rows.length; i++) plot.add("line", { class: "grid", x1: 8, x2: plot.right, y1: plot.top + i * step, y2: plot.top + i * step });
  data.rows.forEach((row, i) => names.forEach((name, s) => {
    const value = data.values[name][i];
    if (value === null) return;
    const y = y0(i) + ((s + 0.5) * tall) / names.length;
    plot.add("line", { class: `line thin ${slotClass(data.slots[s])}`, x1: x(data.low[name][i]), x2: x(data.high[name][i]), y1: y, y2: y });
    plot.add("circle", { class: `${name === data.reference ? "open" : "dot"} ${slotClass(data.slots[s])}`, cx: x(value), cy: y, r: 4.5 });
    plot.hit(x(value), y, `${row}, ${name}: ${shortNumber(value)} [${shortNumber(data.low[name][i])}, ${shortNumber(data.high[name][i])}]`);
  }));
  return plot;
}

// A place in a grid without data.
function drawBlank(data, width) {
  const plot = plotFor(width, []);
  plot.title(data.title);
  plot.text((plot.left + plot.right) / 2, (plot.top + plot.bottom) / 2, data.text, { kind: "tick" });
  return plot;
}

function drawHeatMap(data, width) {
  const left = Math.min(Math.max(...data.rows.map((name) => name.length)) * CHAR + 18, width * 0.4) + 18, tall = data.rows.length > 30 ? 12 : 16;
  const plot = plotFor(width, [], 46 + data.rows.length * tall, { left, above: 20 });
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
  plot.xLabel(data.x_label, plot.bottom + 20);
  plot.text(13, (plot.top + plot.bottom) / 2, data.y_label, { turn: -90, kind: "axis-label" });
  return plot;
}

function heatKey(plot, high, label) {
  const top = plot.top - 18;
  for (let i = 0; i < 20; i++) plot.add("rect", { class: "heat", x: plot.left + i * 6, y: top, width: 6, height: 9, "fill-opacity": (0.06 + (0.94 * i) / 19).toFixed(3) });
  plot.text(plot.left - 6, top + 9, "0", { anchor: "end", kind: "tick" });
  plot.text(plot.left + 126, top + 9, `${label} ${shortNumber(high)}`, { anchor: "start", kind: "tick" });
}

function drawPoints(data, width, isListed) {
  const entries = isListed ? data.points.map(({ label, slot }) => ({ label, slot, open: label === data.reference })) : [];
  const plot = plotFor(width, entries, Math.min(380, Math.max(260, width * 0.75)), {}, data.x_label);
  const x = scale(...extent(data.points.flatMap((p) => p.x_ends).concat([0])), plot.left, plot.right);
  const y = scale(...extent(data.points.flatMap((p) => p.y_ends).concat([0])), plot.bottom, plot.top);
  plot.title(data.title);
  plot.yAxis(y, data.y_label);
  plot.xAxis(x, data.x_label);
  plot.legend(entries);
  data.points.forEach((point) => {
    const style = `line thin ${slotClass(point.slot)}`;
    plot.add("line", { class: style, x1: x(point.x_ends[0]), x2: x(point.x_ends[1]), y1: y(point.y), y2: y(point.y) });
    plot.add("line", { class: style, x1: x(point.x), x2: x(point.x), y1: y(point.y_ends[0]), y2: y(point.y_ends[1]) });
    plot.add("circle", { class: `${point.label === data.reference ? "open" : "dot"} ${slotClass(point.slot)}`, cx: x(point.x), cy: y(point.y), r: 5 });
    plot.hit(x(point.x), y(point.y), `${point.label}: ${data.x_label} ${shortNumber(point.x)}, ${data.y_label} ${shortNumber(point.y)}`);
  });
  const named = data.points.map((point) => ({ label: point.label, slot: point.slot, points: [[x(point.x), y(point.y)]] }));
  plot.isCrowded = !isListed && (named.length > 2 * MOST_NAMED || !labelDirectly(plot, named));
  return plot;
}

const rowsOf = {
  Lines: (d) => [["curve", d.x_label, d.y_label, "low", "high"], ...d.lines.filter((l) => !l.faded).flatMap((l) => l.x.map((x, i) => [l.label, x, l.y[i], l.low[i] ?? "", l.high[i] ?? ""])), ...d.lines.flatMap((l) => l.points.map((x) => [l.label, x, "", "", ""])), ...d.marks.map((m) => [m.label, m.x ?? "", m.y ?? "", "", ""])],
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
  AgreementBars: { draw: drawAgreementBars, rows: rowsOf.Dots },
  HeatMap: { draw: drawHeatMap, rows: rowsOf.HeatMap },
  Points: { draw: drawPoints, rows: rowsOf.Points },
  Blank: { draw: drawBlank, rows: () => [] },
};
