// The plots, and the tables that say the same.

const LIGHT = ["#0063a6", "#c04a00", "#00795a", "#a3438f", "#8a6500", "#4a4fc4", "#9b2335", "#4d6b00", "#007c89", "#6b4e2e"];
const DARK = ["#62b5f0", "#ff9a57", "#35d0a2", "#eda3d0", "#eec14e", "#a6a9ff", "#ff8795", "#b5d55c", "#5fd3df", "#d0ad84"];
const SYMBOLS = ["circle", "diamond", "square", "triangle-up", "cross", "star", "triangle-down", "pentagon", "x", "hexagon"];
const ROW_PIXELS = 18;
const MOST_LINES = 20;

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

const colour = (index) => (isDark() ? DARK : LIGHT)[index % LIGHT.length];
const symbol = (index) => SYMBOLS[index % SYMBOLS.length];
const cssColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const narrow = matchMedia("(max-width: 45rem)");

/** Text for plotly, which reads a little markup: none of ours or of a file's. */
const plain = (value) => String(value).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const shortened = (value, most) => (value.length > most ? `${value.slice(0, most - 1)}…` : value);

/** A name and a size, both to be told from others: what is left out is the middle. */
function shortenedInside(value, most) {
  const end = Math.floor((most - 1) / 2);
  return value.length > most ? `${value.slice(0, most - 1 - end)}…${value.slice(-end)}` : value;
}

function axis(title, more = {}) {
  const line = cssColour("line");
  return { title: { text: title }, gridcolor: line, linecolor: line, zeroline: false, automargin: true, ...more };
}

// Fewer numbers fit beside the names on a phone.
const logarithmic = (title, more = {}) => axis(title, { type: "log", dtick: narrow.matches ? 1 : "D2", exponentformat: "none", ...more });

/** Draw into a place, or say that there is nothing to draw. On a touch screen a finger scrolls the page, not the plot. */
function draw(place, traces, height, xaxis, yaxis, more = {}) {
  const target = byId(place);
  if (!traces.some((trace) => trace.x.length)) {
    Plotly.purge(target);
    target.replaceChildren(make("p", { class: "empty" }, "Nothing to plot: no row that is shown has what this plot needs."));
    return;
  }
  target.querySelector(".empty")?.remove();
  const touch = matchMedia("(pointer: coarse)").matches;
  const layout = {
    height,
    xaxis,
    yaxis,
    dragmode: touch ? false : "zoom",
    paper_bgcolor: cssColour("paper"),
    plot_bgcolor: cssColour("paper"),
    font: { color: cssColour("ink"), family: "system-ui, sans-serif", size: 12 },
    margin: { l: 10, r: 16, t: 44, b: 40 },
    legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0 },
    hoverlabel: { align: "left" },
    hovermode: "closest",
    ...more,
  };
  Plotly.react(target, traces, layout, { responsive: true, displaylogo: false, displayModeBar: false });
}

/** Height, margin and legend of a plot whose legend stands beneath, clear of the axis and its title. */
function legendBelow(area, entries, entriesInLine) {
  const lines = Math.ceil(entries / (narrow.matches ? 1 : entriesInLine));
  const below = 75 + 20 * lines;
  return {
    height: 20 + area + below,
    margin: { l: 10, r: 16, t: 20, b: below },
    legend: { orientation: narrow.matches ? "v" : "h", x: 0, y: -65 / area, yanchor: "top" },
  };
}

/** Points with a name, a text that hovers, and marks that tell without colour. */
function points(name, index, x, y, texts, more = {}) {
  return {
    type: "scatter",
    mode: "markers",
    name: plain(name),
    x,
    y,
    text: texts.map(plain),
    hovertemplate: "%{text}<extra></extra>",
    marker: { color: colour(index), symbol: symbol(index), size: 8 },
    ...more,
  };
}

const stroke = (x, y, texts, name) =>
  points(name, 0, x, y, texts, { marker: { symbol: "line-ns-open", size: 13, color: cssColour("ink"), line: { width: 2 } } });

const lineAtOne = () => [
  { type: "line", x0: 1, x1: 1, yref: "paper", y0: 0, y1: 1, line: { color: cssColour("soft"), dash: "dot", width: 1 } },
];

/** Lines of a chart of dots from the top down, with names that fit. */
function namedLines(names, title = "") {
  const most = narrow.matches ? 18 : 44;
  return axis(title, {
    tickmode: "array",
    tickvals: names.map((_, index) => index),
    ticktext: names.map((name) => plain(shortenedInside(narrow.matches ? name.replace(/^\w+: /, "") : name, most))),
    range: [names.length - 0.4, -0.6],
  });
}

function drawSpeed(rows, peers) {
  const measured = rows.filter((row) => peers.some((peer) => row.ratios[peer]));
  const oneSuite = new Set(measured.map((row) => row.suite)).size === 1;
  const lineName = (row) => `${oneSuite ? "" : `${row.suite}: `}${row.operator} ${row.size}`;
  const names = [...grouped(measured, lineName).keys()];
  const places = new Map(names.map((name, index) => [name, index]));
  const traces = peers.map((peer, index) => {
    const held = measured.filter((row) => row.ratios[peer]);
    const ratios = held.map((row) => row.ratios[peer]);
    const shift = (index - (peers.length - 1) / 2) * 0.24;
    return points(
      peer,
      DATA.peers.indexOf(peer),
      ratios.map((ratio) => ratio.ratio),
      held.map((row) => places.get(lineName(row)) + shift),
      held.map((row, at) => `${row.label} ${row.device}: ${ratioText(ratios[at])} of ${peer}`),
      {
        error_x: {
          symmetric: false,
          array: ratios.map((ratio) => (ratio.high ?? ratio.ratio) - ratio.ratio),
          arrayminus: ratios.map((ratio) => ratio.ratio - (ratio.low ?? ratio.ratio)),
          thickness: 1,
          width: 2,
          color: colour(DATA.peers.indexOf(peer)),
        },
      },
    );
  });
  const barred = measured.filter((row) => row.bar && peers.includes(row.bar.peer));
  const most = barred.map((row) => row.bar.most);
  const texts = barred.map((row) => `${row.label}: at most ${number(row.bar.most)} of ${row.bar.peer}`);
  traces.push(stroke(most, barred.map((row) => places.get(lineName(row))), texts, "bar"));
  const height = Math.max(200, 110 + ROW_PIXELS * names.length);
  const above = 76 / height;
  draw("speed-plot", traces, height, logarithmic(narrow.matches ? "triten's over peer's" : "ratio: triten's time over the peer's", { side: "top" }), namedLines(names), {
    shapes: lineAtOne(),
    margin: { l: 10, r: 16, t: 90, b: 20 },
    legend: { orientation: "h", x: 0, y: 1 + above, yanchor: "bottom" },
  });
}

function drawRoofline(rows) {
  const held = rows.filter((row) => row.intensity && row.flops_per_second);
  const suites = [...new Set(DATA.rows.map((row) => row.suite))];
  const traces = [...grouped(held, (row) => row.suite)].map(([suite, members]) => {
    const texts = members.map(
      (row) => `${row.label} ${row.device}: ${giga(row.flops_per_second)} GFLOP/s, ${percent(row.of_limit)} of the limit`,
    );
    const [x, y] = [members.map((row) => row.intensity), members.map((row) => row.flops_per_second)];
    return points(suite, suites.indexOf(suite), x, y, texts);
  });
  const intensities = held.map((row) => row.intensity);
  const [least, most] = [Math.min(...intensities) / 2, Math.max(...intensities) * 2];
  const limits = [];
  for (const [device, members] of grouped(held, (row) => row.device)) {
    const found = DATA.files[Math.max(...members.map((row) => row.file))].limits;
    const copy = found.copy_bytes_per_second;
    for (const [dtype, peak] of Object.entries(found.matrix_flops_per_second)) {
      limits.push({ device, dtype, peak, copy, knee: copy ? peak / copy : null });
    }
  }
  const dashes = ["solid", "dash", "dot", "dashdot"];
  limits.forEach(({ device, dtype, peak, copy, knee }, index) => {
    const x = [least, knee, most].filter((at) => at !== null && at >= least && at <= most);
    const y = x.map((at) => (copy ? Math.min(peak, at * copy) : peak));
    const texts = x.map(() => `${device} ${dtype}: ${giga(peak)} GFLOP/s, a copy ${giga(copy)} GB/s`);
    const line = { color: cssColour("soft"), dash: dashes[index % dashes.length], width: 1.5 };
    traces.push(points(`limit ${dtype} ${device}`, 0, x, y, texts, { mode: "lines", line }));
  });
  byId("roofline-note").textContent =
    `${held.length} of ${rows.length} rows have both bytes and operations counted. ` +
    (limits.length
      ? "Lines are what the machine reached in the same run: a copy's bytes, a large product's operations. A point above " +
        "the sloped line stayed in a cache."
      : "No limits were measured in these files.");
  const { height, ...places } = legendBelow(320, traces.length, 8);
  draw(
    "roofline-plot",
    traces,
    height,
    logarithmic("operations for each byte"),
    logarithmic(narrow.matches ? "FLOP/s" : "operations a second (FLOP/s)", { dtick: 1, exponentformat: "SI" }),
    places,
  );
  showTable("limits-table", "Limits, measured in the same run", [
    text("dtype", (each) => each.dtype),
    text("device", (each) => each.device),
    numeric("product GFLOP/s", (each) => each.peak, giga),
    numeric("copy GB/s", (each) => each.copy, giga),
    numeric("operations a byte where they meet", (each) => each.knee),
  ], limits);
  showTable("roofline-table", "Achieved rates", [
    text("row", (row) => row.label),
    text("device", (row) => row.device),
    numeric("operations a byte", (row) => row.intensity),
    numeric("GFLOP/s", (row) => row.flops_per_second, giga),
    numeric("GB/s", (row) => row.bytes_per_second, giga),
    text("limit", (row) => row.limit ?? ""),
    numeric("of limit", (row) => row.of_limit, percent),
  ], held);
}

/** The most seconds that a row's bar accepts; null where none is known. */
function acceptedSeconds(row) {
  if (!row.bar) return null;
  if (row.bar.peer === null) return row.bar.most;
  const median = medianOf(row.bar.peer)(row);
  return median === null ? null : row.bar.most * median;
}

function drawOverhead(rows, peers) {
  const calls = rows.filter((row) => row.suite === "overhead" && row.summary[OURS]);
  const mean = (members, value) => geometricMean(members.map(value).filter((each) => each !== null));
  const groups = [...grouped(calls, (row) => row.operator)].map(([group, members]) => ({
    group,
    calls: members.length,
    ours: mean(members, medianOf(OURS)),
    theirs: Object.fromEntries(peers.map((peer) => [peer, mean(members, medianOf(peer))])),
    ratios: Object.fromEntries(peers.map((peer) => [peer, mean(members, (row) => row.ratios[peer]?.ratio ?? null)])),
    accepted: mean(members, acceptedSeconds),
    missed: members.filter((row) => row.verdict === "MISSED").length,
  }));
  const trace = (name, index, value) => {
    const held = groups.filter((each) => value(each) !== null);
    const places = held.map((each) => groups.indexOf(each));
    const texts = held.map((each) => `${each.group}: ${name} ${microseconds(value(each))} us`);
    return points(name, index, held.map((each) => value(each) * 1e6), places, texts);
  };
  const traces = [trace(OURS, 0, (each) => each.ours)];
  for (const peer of peers) traces.push(trace(peer, 1 + DATA.peers.indexOf(peer), (each) => each.theirs[peer]));
  const held = groups.filter((each) => each.accepted !== null);
  const texts = held.map((each) => `${each.group}: accepted ${microseconds(each.accepted)} us`);
  traces.push(stroke(held.map((each) => each.accepted * 1e6), held.map((each) => groups.indexOf(each)), texts, "accepted"));
  const height = 120 + 24 * Math.max(groups.length, 3);
  draw("overhead-plot", traces, height, logarithmic("microseconds of a call"), namedLines(groups.map((each) => each.group)));
  showTable("overhead-table", "Small calls by group: geometric means", [
    text("group", (each) => each.group),
    numeric("calls", (each) => each.calls, String),
    numeric("triten us", (each) => each.ours, microseconds),
    ...peers.map((peer) => numeric(`${peer} us`, (each) => each.theirs[peer], microseconds)),
    numeric("accepted us", (each) => each.accepted, microseconds),
    ...peers.map((peer) => numeric(`ratio to ${peer}`, (each) => each.ratios[peer], (ratio) => ratio?.toFixed(2) ?? "")),
    { ...numeric("bars missed", (each) => each.missed, String), tone: (each) => (each.missed ? "bad" : null) },
  ], groups);
}

/** A row's value in a file: its ratio to the peer, or where no peer was measured its time over the first file's. */
function historyOf(row, peer) {
  if (peer !== null) return row.history.map((point) => point?.ratios[peer] ?? null);
  const first = row.history.find((point) => point !== null)?.median;
  return row.history.map((point) => (point === null ? null : point.median / first));
}

function change(values) {
  const present = values.filter((value) => value !== null);
  return present.length < 2 ? null : present.at(-1) / present[0];
}

function drawHistory(rows, peers) {
  const peer = peers[0] ?? null;
  const known = rows.map((row) => ({ row, values: historyOf(row, peer) })).filter(({ values }) => values.some((v) => v !== null));
  const everywhere = known.filter(({ row, values }) => row.in_means && values.every((value) => value !== null));
  let lines;
  if (byId("history-lines").value === "rows") {
    const size = ({ values }) => Math.abs(Math.log(change(values) ?? 1));
    lines = [...known].sort((a, b) => size(b) - size(a)).slice(0, MOST_LINES);
    lines = lines.map(({ row, values }) => ({ name: row.label, values }));
  } else {
    lines = [...grouped(everywhere, ({ row }) => row.suite)].map(([suite, members]) => ({
      name: `${suite} (${members.length})`,
      values: DATA.files.map((_, index) => geometricMean(members.map(({ values }) => values[index]))),
    }));
  }
  const measure = peer === null ? "time over the first file's" : `ratio to ${peer}`;
  byId("history-note").textContent =
    `${measure}; ${everywhere.length} of ${rows.length} rows are in every file, and only they are in the means. ` +
    (DATA.files.length === 1 ? "This is one file: give several for a history." : "");
  const labels = DATA.files.map((file) => file.label);
  const traces = lines.map(({ name, values }, index) => {
    const texts = values.map((value, file) => `${name}, ${labels[file]}: ${value === null ? "" : value.toFixed(3)}`);
    const line = { color: colour(index), width: 2 };
    return points(shortened(name, 40), index, labels.map((_, at) => at), values, texts, { mode: "lines+markers", line });
  });
  const xaxis = axis("", {
    tickmode: "array",
    tickvals: labels.map((_, at) => at),
    ticktext: labels.map((label) => plain(shortened(label, 16))),
    range: [-0.4, labels.length - 0.6],
  });
  const { height, ...places } = legendBelow(320, traces.length, 3);
  draw("history-plot", traces, height, xaxis, logarithmic(measure), places);
  showTable("history-table", `${measure} in each file`, [
    text("row", ({ row }) => row.label),
    text("device", ({ row }) => row.device),
    ...labels.map((label, at) =>
      numeric(`${at + 1}: ${label}`, ({ values }) => values[at], (value) => value?.toFixed(2) ?? ""),
    ),
    numeric("last over first", ({ values }) => change(values), (value) => value?.toFixed(2) ?? ""),
  ], known);
  if (DATA.files.length > 1) showChanges(rows);
}

function showChanges(rows) {
  const visible = new Set(rows);
  const records = DATA.changes.filter((each) => visible.has(DATA.rows[each.row]));
  showTable("changes-table", `Rows whose time changed by more than ${percent(DATA.threshold)}: the slowest first`, [
    text("row", (each) => DATA.rows[each.row].label),
    text("device", (each) => DATA.rows[each.row].device),
    text("from", (each) => DATA.files[each.base_file].label),
    text("to", (each) => DATA.files[each.new_file].label),
    numeric("before us", (each) => each.base_seconds, microseconds),
    numeric("after us", (each) => each.new_seconds, microseconds),
    numeric("ratio", (each) => each, ratioText),
    { ...text("verdict", (each) => each.verdict), tone: (each) => (each.regression ? "bad" : "good") },
  ], records);
}
