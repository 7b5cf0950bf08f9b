"use strict";
// The data, the filters, and the format of numbers. Texts of the files are only ever set as text.

const DATA = JSON.parse(document.getElementById("data").textContent);
const OURS = "triten";
const SELECTS = ["suite", "dtype", "device", "direction"];
const LAST = DATA.files.length - 1;
// Names of verdicts and states: the class of their color, a mark that tells without color, and their text.
const VERDICTS = { met: "good", MISSED: "bad", unsure: "warning" };
const STATES = {
  met: { tone: "good", mark: "✓", text: "all targets met" },
  partly: { tone: "warning", mark: "!", text: "some targets missed" },
  missed: { tone: "bad", mark: "✕", text: "most targets, or the target of the mean, missed" },
  none: { tone: "neutral", mark: "–", text: "no targets" },
};
const TRENDS = {
  better: { tone: "good", mark: "↑", text: "better than the previous run" },
  worse: { tone: "bad", mark: "↓", text: "worse than the previous run" },
  flat: { tone: "neutral", mark: "→", text: "no change since the previous run" },
};

const byId = (id) => document.getElementById(id);
const known = (value) => value !== null && value !== undefined;

/** An element with properties and children; strings become text nodes, never markup. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (known(value) && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter(known).map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

/** A mark with its text for screen readers. */
const marked = ({ tone, mark, text }) =>
  make("span", { class: `mark ${tone}`, title: text }, make("span", { "aria-hidden": "true" }, mark), make("span", { class: "hidden" }, text));

/** Three significant digits, without an exponent if possible. */
function number(value) {
  if (!known(value)) return "";
  if (value === 0) return "0";
  if (Math.abs(value) >= 1e9 || Math.abs(value) < 1e-6) return value.toExponential(2);
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return value.toFixed(Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)))));
}

const microseconds = (seconds) => (known(seconds) ? number(seconds * 1e6) : "");
const giga = (value) => (known(value) ? number(value / 1e9) : "");
const percent = (share) => (known(share) ? `${(share * 100).toFixed(0)} %` : "");
const times = (speed) => (known(speed) ? `${speed >= 100 ? number(speed) : speed.toFixed(2)}×` : "");
const inverse = (ratio) => (known(ratio) ? 1 / ratio : null);
const signed = (share) => `${share >= 0 ? "+" : "−"}${Math.abs(share * 100).toFixed(0)} %`;

/** The speed-up of a ratio of times, with its confidence interval: both ends change places. */
const speedUp = (ratio) =>
  ratio ? { value: 1 / ratio.ratio, low: inverse(ratio.high), high: inverse(ratio.low) } : null;
function speedText(speed) {
  if (!speed) return "";
  return `${times(speed.value)}${known(speed.low) ? ` [${number(speed.low)}, ${number(speed.high)}]` : ""}`;
}

const verdictText = (row) =>
  ({ met: "met", MISSED: "missed", unsure: "inconclusive" })[row.verdict] ?? row.verdict;
const isFailure = (row) => /^(WRONG|FAILED)/.test(row.note);
const targetText = (row) => {
  if (!row.bar) return "";
  return row.bar.peer === null ? `at most ${microseconds(row.bar.most)} us` : `at least ${times(1 / row.bar.most)}`;
};

/** A benchmark's name inside its suite. */
const nameOf = (row) =>
  [row.name, row.size, row.dtype, row.direction === "forward" ? "" : row.direction].filter(Boolean).join(" ");

function dayOf(file) {
  const moment = new Date(file.time ?? file.started);
  return moment.toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
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

/** Read the pattern of the operator field. Report an invalid one, and keep the last valid one. */
function readPattern() {
  const field = byId("filter-operator");
  let message = "";
  try {
    operatorPattern = new RegExp(field.value, "i");
  } catch (error) {
    message = `Invalid regular expression: ${error.message}`;
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

/** The baselines whose columns and points are shown. */
function visiblePeers() {
  const chosen = byId("filter-peer").value;
  return chosen === "" ? DATA.peers : [chosen];
}

/** The baseline of the charts that show only one. */
const mainPeer = () => visiblePeers().find((peer) => DATA.totals.means[peer]) ?? null;

/** Fill the selects with the values of the files, and call back when a filter changes. A filter of one value is hidden. */
function prepareFilters(changed) {
  const options = Object.fromEntries(SELECTS.map((name) => [name, new Set(DATA.rows.map((row) => row[name]))]));
  options.peer = new Set(DATA.peers);
  for (const [name, values] of Object.entries(options)) {
    const select = byId(`filter-${name}`);
    select.append(make("option", { value: "" }, "all"));
    for (const value of values) select.append(make("option", { value }, value === "" ? "(none)" : value));
    select.parentElement.hidden = values.size < 2;
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
