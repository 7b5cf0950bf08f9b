"use strict";
// The data, what is shown of it, and how numbers read. Texts of the files are only ever set as text.

const DATA = JSON.parse(document.getElementById("data").textContent);
const OURS = "triten";
const SELECTS = ["suite", "dtype", "device", "direction"];

const byId = (id) => document.getElementById(id);

/** An element with properties and children; strings become text nodes, never markup. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

/** Three digits that matter, without an exponent where one can do without. */
function number(value) {
  if (value === null || value === undefined) return "";
  if (value === 0) return "0";
  if (Math.abs(value) >= 1e9 || Math.abs(value) < 1e-6) return value.toExponential(2);
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return value.toFixed(Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)))));
}

const microseconds = (seconds) => (seconds === null || seconds === undefined ? "" : number(seconds * 1e6));
const giga = (value) => (value === null || value === undefined ? "" : number(value / 1e9));
const percent = (share) => (share === null || share === undefined ? "" : `${(share * 100).toFixed(0)} %`);

/** A ratio with its confidence interval. */
function ratioText(ratio) {
  if (!ratio) return "";
  const interval = ratio.low === null ? "" : ` [${ratio.low.toFixed(2)}, ${ratio.high.toFixed(2)}]`;
  return `${ratio.ratio.toFixed(2)}${interval}`;
}

/** Geometric mean of positive numbers; null of none. */
function geometricMean(values) {
  if (!values.length) return null;
  return Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
}

/** Groups of rows by a name, in the order in which the names first appear. */
function grouped(rows, name) {
  const groups = new Map();
  for (const row of rows) {
    if (!groups.has(name(row))) groups.set(name(row), []);
    groups.get(name(row)).push(row);
  }
  return groups;
}

let operatorPattern = /(?:)/;

/** The pattern of the operator field; one that is no regular expression is said to be so, and the last good one stays. */
function readPattern() {
  const field = byId("filter-operator");
  let message = "";
  try {
    operatorPattern = new RegExp(field.value, "i");
  } catch (error) {
    message = `No regular expression: ${error.message}`;
  }
  if (message) field.setAttribute("aria-invalid", "true");
  else field.removeAttribute("aria-invalid");
  byId("operator-error").textContent = message;
}

/** The rows that all filters let through. The pattern may match an operator or a row's own name. */
function visibleRows() {
  const wanted = SELECTS.map((name) => [name, byId(`filter-${name}`).value]).filter(([, value]) => value !== "");
  return DATA.rows.filter(
    (row) =>
      wanted.every(([name, value]) => row[name] === value) &&
      (operatorPattern.test(row.operator) || operatorPattern.test(row.name)),
  );
}

/** The peers whose columns and points are shown. */
function visiblePeers() {
  const chosen = byId("filter-peer").value;
  return chosen === "" ? DATA.peers : [chosen];
}

/** Fill the selects with what the files have, and call back when a filter changes. */
function prepareFilters(changed) {
  const options = Object.fromEntries(SELECTS.map((name) => [name, new Set(DATA.rows.map((row) => row[name]))]));
  options.peer = new Set(DATA.peers);
  for (const [name, values] of Object.entries(options)) {
    const select = byId(`filter-${name}`);
    select.append(make("option", { value: "" }, "all"));
    for (const value of values) select.append(make("option", { value }, value === "" ? "(none)" : value));
  }
  const form = byId("filters");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    readPattern();
    changed();
  });
  // The fields are reset after the event, in the same task: a microtask would read them too early.
  form.addEventListener("reset", () =>
    setTimeout(() => {
      readPattern();
      changed();
    }),
  );
}
