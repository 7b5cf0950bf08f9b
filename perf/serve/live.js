"use strict";
// Texts of result files are set as text, never as markup.

const place = (name) => document.getElementById(name);
let selected = null;

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
  return `${(seconds * factor).toPrecision(3)} ${unit}`;
}

function showProgress(all) {
  const made = all.map((each) => {
    const row = document.createElement("p");
    const bar = document.createElement("progress");
    bar.max = Math.max(each.total, 1);
    bar.value = each.done;
    bar.setAttribute("aria-label", each.file);
    const part = each.part ? `${each.part}, ` : "";
    row.append(bar, `${each.file}: ${part}row ${each.done + 1} of ${each.total}: ${each.title}`);
    return row;
  });
  place("progress").replaceChildren(...(made.length ? made : [element("p", "No benchmark is running.")]));
}

function showRuns(runs) {
  const made = runs.map((run) => {
    const cell = document.createElement("td");
    const button = element("button", run.started);
    button.type = "button";
    button.addEventListener("click", () => { selected = run.id; showRows(); });
    cell.append(button);
    const state = run.rehearsal ? "rehearsal" : run.complete ? "complete" : "incomplete";
    const commit = run.commit + (run.dirty ? "+" : "");
    return line(cell, commit, `${run.timed} of ${run.rows}`, state, run.device, run.machine, run.name);
  });
  place("runs").replaceChildren(...made);
}

async function showRows() {
  const asked = selected;
  if (asked === null) return;
  const answer = await fetch(`/api/runs/${asked}`);
  if (!answer.ok || asked !== selected) return;
  const { rows } = await answer.json();
  place("details").hidden = false;
  place("rows").replaceChildren(...rows.map((row) => {
    const ratios = Object.entries(row.ratios).map(([peer, [ratio, low, high]]) => {
      const interval = low === null ? "" : ` [${low.toFixed(2)}, ${high.toFixed(2)}]`;
      return `${ratio.toFixed(2)}${interval} / ${peer}`;
    });
    return line(row.title, element("td", duration(row.seconds), "number"), ratios.join("; "), row.outcome);
  }));
}

const events = new EventSource("/events");
events.addEventListener("open", () => { place("connection").textContent = "connected"; });
events.addEventListener("error", () => { place("connection").textContent = "connection lost; trying again"; });
events.addEventListener("state", (event) => {
  const state = JSON.parse(event.data);
  showProgress(state.progress);
  showRuns(state.runs);
  place("problems").hidden = state.errors.length === 0;
  place("errors").replaceChildren(...state.errors.map((text) => element("li", text)));
  showRows();
});
