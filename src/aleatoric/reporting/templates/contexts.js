// The items of a run: search, sort, choose, and see people beside the systems.

const MOST_LISTED = 300;

class Picker {
  constructor(suffix) {
    this.suffix = suffix;
    this.data = JSON.parse(document.getElementById(`contexts${suffix}`).textContent);
    this.search = this.find("context-search");
    this.list = this.find("context-pick");
    this.system = this.find("context-system");
    this.order = this.find("context-sort");
    this.view = this.find("context-view");
    this.places = new Map(this.data.items.map((item, i) => [item.id, i]));
    this.haystack = this.data.items.map((item) => `${item.id} ${item.group} ${item.context ?? item.input.join(" ")}`.toLowerCase());
    this.shown = null;
    this.data.systems.forEach((name, i) => this.system.append(tag("option", { value: i }, name)));
    if (this.data.systems.length > 1) this.system.append(tag("option", { value: "all" }, "all systems"));
    this.search.addEventListener("input", () => { this.fill(); this.first(); });
    this.order.addEventListener("change", () => { this.fill(); this.first(); });
    this.system.addEventListener("change", () => { this.fill(); this.draw(); this.note(); });
    this.list.addEventListener("change", () => this.choose(this.list.value, true));
    this.find("context-before").addEventListener("click", () => this.step(-1));
    this.find("context-after").addEventListener("click", () => this.step(1));
    this.fill();
    if (this.found.length) this.choose(this.data.items[this.found[0]].id, false);
  }

  find(id) { return document.getElementById(id + this.suffix); }

  value(item, i) {
    const key = this.order.value, chosen = this.chosen();
    if (key === "order") return -i;
    const numbers = chosen.map((s) => this.number(item, s, key)).filter((v) => v !== null && v !== undefined);
    return numbers.length ? Math.max(...numbers) : -Infinity;
  }

  number(item, system, key) {
    if (this.data.kind === "answers") return item.systems[system]?.[key];
    return item.numbers[system + 1]?.[key]?.[0];
  }

  chosen() {
    const all = this.data.systems.map((_, i) => i);
    return this.system.value === "all" || this.system.value === "" ? all : [Number(this.system.value)];
  }

  fill() {
    const wanted = this.search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    this.haystack.forEach((text, i) => { if (wanted.every((part) => text.includes(part))) found.push(i); });
    const values = new Map(found.map((i) => [i, this.value(this.data.items[i], i)]));
    this.found = found.sort((a, b) => values.get(b) - values.get(a) || a - b);
    const options = this.found.slice(0, MOST_LISTED).map((i) => this.option(this.data.items[i]));
    this.list.replaceChildren(...options);
    const more = this.found.length > MOST_LISTED ? `, the first ${MOST_LISTED} are listed` : "";
    const fits = this.data.items.length < this.data.total ? ` (${this.data.items.length} of ${this.data.total} items of the run fit on this page; aleatoric view shows all)` : "";
    this.find("context-count").textContent = `${this.found.length} of ${this.data.items.length} match${more}${fits}`;
    if (this.shown) this.list.value = this.shown.id;
  }

  option(item) {
    const key = this.order.value === "order" ? this.data.listed : this.order.value;
    const values = this.chosen().map((s) => this.number(item, s, key)).filter((v) => v !== null && v !== undefined);
    const number = values.length ? `${Math.max(...values).toFixed(3)}  ` : "";
    const text = item.context ?? item.input.join(" / "), head = `${number}${clipped(item.id, 24)}  `;
    // The gap is at the end of a context: that is what a narrow list keeps.
    const fits = Math.max(16, Math.floor((this.list.clientWidth || 700) / 8.4) - head.length - 4);
    const end = text.length > fits ? "…" + text.slice(1 - fits) : text;
    return tag("option", { value: item.id, "data-context-id": item.id }, head + (this.data.kind === "answers" ? end : clipped(text, fits)));
  }

  // The first hit of a search or an order is chosen.
  first() {
    if (this.found.length) this.choose(this.data.items[this.found[0]].id, true);
  }

  step(by) {
    const at = this.shown ? this.found.indexOf(this.places.get(this.shown.id)) : -1;
    const next = this.found[Math.min(this.found.length - 1, Math.max(0, at + by))];
    if (next !== undefined) this.choose(this.data.items[next].id, true);
  }

  has(id) { return this.places.has(id); }

  choose(id, byReader, system = null) {
    const item = this.data.items[this.places.get(id)];
    if (!item) return;
    this.shown = item;
    if (system !== null && this.data.systems.includes(system)) this.system.value = this.data.systems.indexOf(system);
    this.list.value = id;
    this.draw();
    if (byReader) this.note();
  }

  // Put the item into the address, so that it can be shared.
  note() {
    if (!this.shown) return;
    const name = this.system.value === "all" || !this.data.systems.length ? "" : `&system=${encodeURIComponent(this.data.systems[Number(this.system.value)])}`;
    history.replaceState(null, "", `#context=${encodeURIComponent(this.shown.id)}${name}`);
  }

  draw() {
    if (!this.shown) return;
    this.current = null;
    const make = this.data.kind === "answers" ? answersView : textView;
    this.view.replaceChildren(...make(this));
    // A long context is shown from its end, where the gap is.
    if (this.data.has_gap) this.view.querySelectorAll(".context").forEach((box) => { box.scrollTop = box.scrollHeight; });
  }

  chart(picture, label) {
    const box = this.find("context-chart").content.cloneNode(true).firstElementChild;
    const width = Math.max(280, this.view.clientWidth || 700);
    const drawn = drawFigure(picture, width);
    drawn.node.setAttribute("aria-label", label);
    makeVisitable(drawn.node, drawn.hits, follow);
    box.prepend(drawn.node);
    connectDownloads(box, () => `context-${this.shown.id}`, () => ({ picture, node: drawn.node, title: label }));
    return box;
  }
}

function answersView(picker) {
  const item = picker.shown, chosen = picker.chosen();
  const picture = wordBars(picker, item, chosen);
  const facts = chosen.map((s) => itemFacts(picker.data, picker.data.systems[s], item.systems[s]));
  const original = item.original === null ? "" : tag("p", { class: "small" }, "Next word in the text: ", isolated(item.original));
  return [
    tag("h4", {}, `${picker.data.item} `, isolated(item.id), tag("span", { class: "small" }, ` (group ${item.group}, ${item.n} answers)`)),
    tag("blockquote", { class: "context", tabindex: 0 }, isolated(item.context), picker.data.has_gap ? tag("span", { class: "gap" }, " ___") : ""),
    original,
    ...facts,
    picker.chart(picture, `Answers of people and ${chosen.map((s) => picker.data.systems[s]).join(", ")}`),
  ].filter(Boolean);
}

function itemFacts(data, name, own) {
  if (!own) return tag("p", { class: "small" }, isolated(name), " has no answer to this item.");
  const draws = own.n === null ? "exact probabilities" : `${own.n} draws`;
  return tag("p", { class: "small" }, isolated(name), `: ${data.measures.map((one) => `${one.heading} ${shortNumber(own[one.key])}`).join(", ")} (${draws})`);
}

function shares(flat) {
  const found = new Map();
  for (let i = 0; i < flat.length; i += 2) found.set(flat[i], flat[i + 1]);
  return found;
}

function wordBars(picker, item, chosen) {
  const people = shares(item.words);
  const known = chosen.filter((s) => item.systems[s]);
  const models = known.map((s) => shares(item.systems[s].words));
  const all = new Set([...people.keys(), ...models.flatMap((m) => [...m.keys()])]);
  const most = (w) => Math.max(people.get(w) ?? 0, ...models.map((m) => m.get(w) ?? 0));
  const order = [...all].sort((a, b) => (people.get(b) ?? 0) - (people.get(a) ?? 0) || most(b) - most(a));
  const rows = order.slice(0, 30);
  // A system may give answers that are not listed: its rarer ones are not on the page.
  const series = [people, ...models].map((side, i) => {
    const values = rows.map((w) => side.get(w) ?? (i === 0 || people.has(w) ? 0 : null));
    const rest = Math.max(0, 1 - values.reduce((sum, v) => sum + (v ?? 0), 0));
    return { label: i ? picker.data.systems[known[i - 1]] : "people", slot: i ? known[i - 1] + 1 : 0, values: [...values, rest] };
  });
  const words = rows.map((w) => picker.data.words[w]);
  return { kind: "Bars", title: "", words: [...words, "(other)"], series };
}

function textView(picker) {
  const item = picker.shown, chosen = picker.chosen();
  const parts = [tag("h4", {}, "Input ", isolated(item.id), tag("span", { class: "small" }, ` (group ${item.group})`))];
  for (const turn of item.input) parts.push(tag("blockquote", { class: "context", tabindex: 0 }, isolated(turn)));
  parts.push(textNumbers(picker, item, chosen));
  if (item.picture && !chosen.includes(item.pictured) && item.pictured !== null) parts.push(tag("p", { class: "small" }, "The distances of this input are drawn for ", isolated(picker.data.systems[item.pictured]), ": choose that system to see them."));
  else if (item.picture) parts.push(picker.chart(item.picture, "Distances between people's texts, the generator's, and both"));
  const columns = tag("div", { class: "columns" }, textList("People", item.people));
  for (const s of chosen) columns.append(textList(picker.data.systems[s], item.systems[s] ?? []));
  parts.push(columns);
  return parts;
}

function textNumbers(picker, item, chosen) {
  const heads = ["probe", "system", "energy", "mean H", "mean M", "mean C", "W1(M, H)", "W1(C, H)"];
  const body = tag("tbody");
  picker.data.probes.forEach((probe, p) => {
    const human = item.numbers[0].mean_H?.[p];
    const rows = chosen.length ? chosen : [null];
    for (const s of rows) {
      const own = s === null ? {} : item.numbers[s + 1];
      const cells = [own.energy?.[p], human, ...["mean_M", "mean_C", "w1_M", "w1_C"].map((key) => own[key]?.[p])];
      body.append(tag("tr", {}, tag("th", { scope: "row" }, probe), tag("td", { class: "text" }, isolated(s === null ? "people" : picker.data.systems[s])), ...cells.map((v) => tag("td", {}, shortNumber(v)))));
    }
  });
  const head = tag("thead", {}, tag("tr", {}, ...heads.map((h, i) => tag("th", { scope: "col", class: i === 1 ? "text" : "" }, h))));
  return tag("div", { class: "wide" }, tag("table", {}, head, body));
}

function textList(name, texts) {
  const list = tag("ol", {}, ...texts.map((text) => tag("li", {}, text === "" ? tag("em", {}, "(empty)") : tag("div", { class: "text-box", ...(text.length > 1500 ? { tabindex: 0 } : {}) }, isolated(text)))));
  return tag("section", { "data-texts-of": name }, tag("h5", {}, isolated(name), ` (${texts.length})`), list);
}
