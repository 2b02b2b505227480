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

// All values of an experiment are data until they are asked for.
const data = new Map();
const valuesOf = (part) => {
  if (!data.has(part)) data.set(part, JSON.parse(part.querySelector("script.values").textContent));
  return data.get(part);
};
const element = (name, text, properties = {}) => Object.assign(document.createElement(name), { textContent: text }, properties);
// What a cell of a column says, and by which number it sorts.
const told = ({ kinds, words, metrics }, row, column) => {
  const cell = row[column + 1];
  const of = metrics[row[kinds.indexOf("m") + 1]];
  // Least and largest are left out where they are the median.
  const value = cell === null && kinds[column] === "q" ? row[kinds.indexOf("q") + 1] : cell;
  switch (kinds[column]) {
    case "w": return [words[cell]];
    case "m": return [of[0].replaceAll("_", " ")];
    case "q": return [SHOW[of[1]](value, of[2]), value];
    case "f": return cell === null ? ["-"] : [SHOW.factor(cell), cell];
    case "s": return cell === null ? ["-"] : [SHOW.share(cell), cell];
    default: return [String(cell), cell];
  }
};
const line = (values, row) => {
  const tr = element("tr", "", { id: `r${row[0]}` });
  values.heads.forEach((head, column) => {
    const [text, number] = told(values, row, column);
    const cell = element("td", text);
    if (number !== undefined) cell.dataset.v = number;
    tr.append(cell);
  });
  return tr;
};
const fill = (part) => {
  if (part.querySelector("table")) return;
  const values = valuesOf(part);
  const table = element("table", "", { className: "sortable" });
  const heads = table.createTHead().insertRow();
  values.heads.forEach((text, column) => {
    heads.append(element("th", text, { scope: "col", className: "wm".includes(values.kinds[column]) ? "" : "n" }));
  });
  table.createTBody().append(...values.rows.map((row) => line(values, row)));
  const around = element("div", "", { className: "table", tabIndex: 0 });
  around.append(table);
  part.append(around);
  sortable(table);
  if (values.rows.length > 25) searchable(table);
};
const parts = [...document.querySelectorAll("details.all")];
for (const part of parts) {
  if (part.open) fill(part);
  part.addEventListener("toggle", () => { if (part.open) fill(part); });
}

// A mark leads to its row, which may have to be made first.
const find = (number) => {
  for (const part of parts) {
    const row = valuesOf(part).rows.find(([place]) => place === number);
    if (row) return { part, row };
  }
  return null;
};
const reveal = (number) => {
  const found = find(number);
  if (!found) return;
  fill(found.part);
  found.part.open = true;
  document.getElementById(`r${number}`).scrollIntoView({ block: "center" });
};
const marked = (event) => event.target.closest("svg [data-r]");
document.addEventListener("click", (event) => {
  const mark = marked(event);
  if (mark) location.hash = `r${mark.dataset.r}`;
});
// What is folded is opened where a link leads there.
const open = () => {
  const row = /^#r(\d+)$/.exec(location.hash);
  if (row) reveal(Number(row[1]));
  const place = document.getElementById(location.hash.slice(1));
  const folded = place?.closest("details:not([open])");
  if (folded) { folded.open = true; place.scrollIntoView(); }
};
addEventListener("hashchange", open);
open();

// What a mark is appears under the pointer.
document.addEventListener("pointerover", (event) => {
  const mark = marked(event);
  const found = mark && !mark.querySelector("title") && find(Number(mark.dataset.r));
  if (!found) return;
  const values = valuesOf(found.part);
  const of = (head) => told(values, found.row, values.heads.indexOf(head))[0];
  const runs = of("runs");
  const spread = runs === "1" ? "once" : `${of("least")} to ${of("largest")} in ${runs} runs`;
  const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
  title.textContent = `${of("subject")}, ${of("case")}: ${of("median")} (${spread}, ${of("tier")})`;
  mark.prepend(title);
});
