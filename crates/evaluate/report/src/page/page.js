"use strict";
const root = document.documentElement;

const theme = document.getElementById("theme");
const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
const label = () => { theme.textContent = dark() ? "Light" : "Dark"; };
theme.hidden = false;
theme.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; label(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
label();

// A cell sorts by its number where it has or is one, else by its text.
const key = (row, column) => {
  const cell = row.cells[column];
  const number = Number(cell.dataset.v ?? cell.textContent);
  return Number.isNaN(number) ? cell.textContent : number;
};
const compare = (one, other) => {
  if (typeof one === "number" && typeof other === "number") return one - other;
  if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
  return one.localeCompare(other, "en", { numeric: true });
};
const sortable = (table) => {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [key(row, column), row]);
      rows.sort(([one], [other]) => up ? compare(one, other) : compare(other, one));
      body.append(...rows.map(([, row]) => row));
    });
  });
};

const searchable = (table) => {
  const input = document.createElement("input");
  input.type = "search";
  input.className = "filter";
  input.placeholder = "Show rows with these words";
  input.setAttribute("aria-label", input.placeholder);
  table.parentElement.before(input);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
};
for (const table of document.querySelectorAll("table.sortable")) sortable(table);
for (const table of document.querySelectorAll("table.long")) searchable(table);

// Numbers as people read them: three digits, in the unit that suits them.
const measured = (value) => {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e15) return value.toExponential(2).replace("e+", "e");
  if (size >= 999.5) return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
  const digits = [[99.95, 0], [9.995, 1], [0.00995, 2], [0.000995, 4]].find(([least]) => size >= least);
  return digits ? value.toFixed(digits[1]) : value.toExponential(2);
};
const digits = (value) => Number.isInteger(value) && Math.abs(value) < 999.5 ? value.toFixed(0) : measured(value);
const scaled = (value, units, show) => {
  const [, each, unit] = units.find(([most]) => Math.abs(value) < most);
  return `${show(value / each)} ${unit}`;
};
const TIMES = [[0.0000009995, 1e-9, "ns"], [0.0009995, 1e-6, "us"], [0.9995, 1e-3, "ms"], [Infinity, 1, "s"]];
const SIZES = [[1023.5, 1, "B"], [1023.5 * 2 ** 10, 2 ** 10, "KiB"], [1023.5 * 2 ** 20, 2 ** 20, "MiB"], [Infinity, 2 ** 30, "GiB"]];
const SHOW = {
  time: (value, each) => value === 0 ? "0 s" : scaled(value * each, TIMES, measured),
  bytes: (value) => scaled(value, SIZES, digits),
  share: (value) => `${digits(value * 100)} %`,
  factor: (value) => `${measured(value)}x`,
  flag: (value) => value === 1 ? "yes" : "no",
  plain: (value, unit) => unit ? `${digits(value)} ${unit}` : digits(value),
};

// All values of a section are data until they are asked for.
const data = new Map();
const valuesOf = (part) => {
  if (!data.has(part)) data.set(part, JSON.parse(part.querySelector("script.values").textContent));
  return data.get(part);
};
const element = (name, text, properties = {}) => Object.assign(document.createElement(name), { textContent: text }, properties);
const tell = ({ words, metrics }, [, subject, of, metric, runs, median, least = median, largest = median]) => {
  const [name, kind, each] = metrics[metric];
  return { subject: words[subject], of: words[of], name, runs, numbers: [median, least, largest], show: (value) => SHOW[kind](value, each) };
};
const line = (values, row) => {
  const { subject, of, name, runs, numbers, show } = tell(values, row);
  const tr = element("tr", "", { id: `r${row[0]}` });
  tr.append(...[subject, of, name].map((text) => element("td", text)));
  for (const number of numbers) {
    const cell = element("td", show(number));
    cell.dataset.v = number;
    tr.append(cell);
  }
  tr.append(element("td", runs));
  return tr;
};
const HEADS = ["subject", "case", "metric", "median", "least", "largest", "runs"];
const fill = (part) => {
  if (part.querySelector("table")) return;
  const values = valuesOf(part);
  for (const [run, tier, rows] of values.tables) {
    const note = element("p", "Of ", { className: "faint" });
    note.append(element("a", `run ${run}`, { href: `#run-${run}` }), ", ", element("a", tier, { href: `#${tier}` }));
    const table = element("table", "", { className: "sortable" });
    const heads = table.createTHead().insertRow();
    heads.append(...HEADS.map((text, column) => element("th", text, { scope: "col", className: column > 2 ? "n" : "" })));
    table.createTBody().append(...rows.map((row) => line(values, row)));
    const around = element("div", "", { className: "table" });
    around.append(table);
    part.append(note, around);
    sortable(table);
    if (rows.length > 25) searchable(table);
  }
};
const parts = [...document.querySelectorAll("details.all")];
for (const part of parts) {
  if (part.open) fill(part);
  part.addEventListener("toggle", () => { if (part.open) fill(part); });
}

// A number leads to its row, which may have to be made first.
const find = (link) => {
  const number = Number(/^#r(\d+)$/.exec(link?.getAttribute("href") ?? "")?.[1] ?? NaN);
  for (const part of Number.isNaN(number) ? [] : parts) {
    for (const [, tier, rows] of valuesOf(part).tables) {
      const row = rows.find(([place]) => place === number);
      if (row) return { part, tier, row };
    }
  }
  return null;
};
const reveal = (link) => {
  const found = find(link);
  if (!found) return;
  fill(found.part);
  found.part.open = true;
};
document.addEventListener("click", (event) => reveal(event.target.closest("a")));
if (/^#r\d+$/.test(location.hash)) {
  reveal(element("a", "", { href: location.hash }));
  document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

// What a mark is appears under the pointer.
const note = (event) => {
  const link = event.target.closest("svg a");
  const found = link && !link.querySelector("title") && find(link);
  if (!found) return;
  const { subject, of, runs, numbers, show } = tell(valuesOf(found.part), found.row);
  const [median, least, largest] = numbers.map(show);
  const spread = runs === 1 ? "once" : `${least} to ${largest} in ${runs} runs`;
  const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
  title.textContent = `${subject}, ${of}: ${median} (${spread}, ${found.tier})`;
  link.prepend(title);
};
for (const event of ["pointerover", "focusin"]) document.addEventListener(event, note);
