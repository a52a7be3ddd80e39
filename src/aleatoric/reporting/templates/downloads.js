// Figures as CSV, SVG or PNG, made in the page without a network.

function csvOf(picture) {
  const panels = (picture.kind === "Panels" ? picture.pictures : [picture]).filter((panel) => panel.kind !== "Blank");
  const parts = panels.map((panel) => {
    const rows = KINDS[panel.kind].rows(panel);
    return panels.length > 1 ? rows.map((row, i) => [i ? panel.title ?? "" : "panel", ...row]) : rows;
  });
  const same = parts.every((rows) => String(rows[0]) === String(parts[0][0]));
  const rows = parts.flatMap((own, i) => (i && same ? own.slice(1) : own));
  return rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

function csvCell(value) {
  let text = value === null || value === undefined ? "" : String(value);
  if (/^[=+\-@\t\r]/.test(text) && !/^[+-]?\d[\d.,]*(e[+-]?\d+)?%?$/.test(text)) text = `'${text}`; // no formula
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function save(name, blob) {
  const address = URL.createObjectURL(blob);
  const link = tag("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

const KEPT_STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "paint-order", "opacity", "stroke-opacity", "font-size", "font-family", "font-weight"];

// A drawing without a style sheet, in light colors whatever the theme.
function standalone(figure, title) {
  const root = document.documentElement;
  const before = root.dataset.theme;
  root.dataset.theme = "light";
  const copy = figure.cloneNode(true);
  copy.querySelectorAll(".cursor").forEach((node) => node.remove());
  const originals = [...figure.querySelectorAll("*")].filter((node) => !node.classList.contains("cursor"));
  const copies = [...copy.querySelectorAll("*")];
  originals.forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const name of KEPT_STYLES) copies[i].setAttribute(name, style.getPropertyValue(name));
    copies[i].removeAttribute("class");
  });
  if (before) root.dataset.theme = before; else delete root.dataset.theme;
  const [, , width, height] = copy.getAttribute("viewBox").split(" ");
  const head = title ? 28 : 0;
  copy.setAttribute("viewBox", `0 ${-head} ${width} ${Number(height) + head}`);
  copy.setAttribute("height", Number(height) + head);
  if (title) copy.prepend(svg("text", { x: 0, y: -10, fill: "#000000", "font-size": "14px", "font-family": "sans-serif", "font-weight": "600" }, title));
  copy.prepend(svg("rect", { y: -head, width, height: Number(height) + head, fill: "#ffffff" }));
  ["class", "tabindex", "style"].forEach((name) => copy.removeAttribute(name));
  return new XMLSerializer().serializeToString(copy);
}

function savePng(figure, name, title) {
  const image = new Image();
  image.onload = () => {
    const canvas = tag("canvas", { width: image.width * 2, height: image.height * 2 });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(name, blob), "image/png");
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(figure, title))}`;
}

const fileName = (name) => name.replace(/[^\w.=-]+/g, "-").replace(/^[-.]+|[-.]+$/g, "") || "figure";

// Connect the buttons of a figure; `current` returns what is drawn now.
function connectDownloads(box, name, current) {
  const connect = (selector, act) => {
    const button = box.querySelector(selector);
    if (button) button.addEventListener("click", () => { const now = current(); if (now) act(now, fileName(name())); });
  };
  connect("button[data-csv]", (now, own) => save(`${own}.csv`, new Blob([csvOf(now.picture)], { type: "text/csv;charset=utf-8" })));
  connect("button[data-svg]", (now, own) => save(`${own}.svg`, new Blob([standalone(now.node, now.title)], { type: "image/svg+xml" })));
  connect("button[data-png]", (now, own) => savePng(now.node, `${own}.png`, now.title));
}
