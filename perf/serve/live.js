"use strict";
// Texts of result files are set as text, never as markup.

const place = (name) => document.getElementById(name);
const OUTCOMES = { met: ["target met", "good"], MISSED: ["target missed", "bad"], unsure: ["inconclusive", "warning"] };
let selected = null;
let names = {};

function element(name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function line(...cells) {
  const made = document.createElement("tr");
  made.append(...cells.map((cell) => (cell instanceof Node ? cell : element("td", cell))));
  return made;
}

function duration(seconds) {
  if (seconds === null) return "";
  const [unit, factor] = seconds < 1e-3 ? ["us", 1e6] : seconds < 1 ? ["ms", 1e3] : ["s", 1];
  return `${Number((seconds * factor).toPrecision(3))} ${unit}`;
}

function moment(text) {
  const found = new Date(text);
  if (Number.isNaN(found.getTime())) return text;
  return found.toLocaleString("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
}

function showProgress(all) {
  const made = all.map((each) => {
    const row = element("p", "", "running");
    const bar = document.createElement("progress");
    bar.max = Math.max(each.total, 1);
    bar.value = each.done;
    bar.setAttribute("aria-label", each.file);
    const part = each.part ? `${each.part}, ` : "";
    row.append(bar, `${each.file}: ${part}benchmark ${Math.min(each.done + 1, each.total)} of ${each.total}: ${each.title}`);
    return row;
  });
  place("progress").replaceChildren(...(made.length ? made : [element("p", "No benchmark is running.")]));
}

function select(id) {
  selected = id;
  for (const row of place("runs").children) row.setAttribute("aria-current", String(row.dataset.id === id));
  showRows();
}

function showRuns(runs, running) {
  names = Object.fromEntries(runs.map((run) => [run.id, run.name]));
  const focused = document.activeElement?.closest?.("#runs tr")?.dataset.id;
  const made = runs.map((run) => {
    const cell = document.createElement("td");
    const button = element("button", moment(run.started));
    button.type = "button";
    button.addEventListener("click", () => {
      select(run.id);
      place("details").scrollIntoView({ block: "nearest" });
    });
    cell.append(button);
    const isRunning = running.has(run.name);
    const state = isRunning ? "running" : run.rehearsal ? "rehearsal" : run.complete ? "complete" : "incomplete";
    const commit = run.commit + (run.dirty ? "+" : "");
    const count = run.timed === run.rows ? String(run.rows) : `${run.timed} of ${run.rows}`;
    const row = line(cell, commit, element("td", state, isRunning || run.complete ? "" : "warning"), element("td", count, "number"), run.device, run.machine, run.name);
    row.dataset.id = run.id;
    return row;
  });
  place("runs").replaceChildren(...made);
  if (focused) [...made].find((row) => row.dataset.id === focused)?.querySelector("button").focus();
}

/** The speed-up over a baseline, of a ratio of times: both ends of the interval change places. */
function speedUp([peer, [ratio, low, high]]) {
  const digits = (value) => (value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(2));
  const interval = low === null ? "" : ` [${digits(1 / high)}, ${low > 0 ? digits(1 / low) : "∞"}]`;
  return `${digits(1 / ratio)}×${interval} over ${peer}`;
}

async function showRows() {
  const asked = selected;
  if (asked === null) return;
  const answer = await fetch(`/api/runs/${asked}`);
  if (!answer.ok || asked !== selected) return;
  const { rows } = await answer.json();
  place("details").hidden = false;
  place("benchmarks-title").textContent = `Benchmarks of ${names[asked] ?? "a run"}`;
  place("rows").replaceChildren(...rows.map((row) => {
    const title = element("th", row.title);
    title.scope = "row";
    const [outcome, tone] = OUTCOMES[row.outcome] ?? [row.outcome, ""];
    return line(title, element("td", duration(row.seconds), "number"), Object.entries(row.ratios).map(speedUp).join("; "), element("td", outcome, tone));
  }));
}

function tell(text, tone) {
  place("connection").textContent = text;
  place("connection").className = tone;
}

const events = new EventSource("/events");
events.addEventListener("open", () => tell("connected", "good"));
events.addEventListener("error", () => tell("connection lost; trying again", "bad"));
events.addEventListener("state", (event) => {
  const state = JSON.parse(event.data);
  showProgress(state.progress);
  showRuns(state.runs, new Set(state.progress.map((each) => each.file)));
  place("problems").hidden = state.errors.length === 0;
  place("errors").replaceChildren(...state.errors.map((text) => element("li", text)));
  // The newest run is shown until the reader chooses another one.
  if (selected === null && state.runs.length) select(state.runs[0].id);
  else select(selected);
});
