// Profiles of training steps: a flame graph, a timeline, live memory by allocation site, and operators.

const PROFILES = DATA.profiles ?? [];
const ROW_HEIGHT = 20;
// More lines from launches to their work would hide the blocks.
const MAX_LINES = 60;
// Colors of the kinds of spans, and their names in the legend.
const KIND_TONES = {
  function: ["neutral", "Python function"],
  module: ["series-2", "module"],
  range: ["series-3", "range"],
  operator: ["series-0", "operator"],
  autograd: ["series-4", "autograd"],
  launch: ["series-9", "launch"],
  kernel: ["series-1", "kernel"],
};

/** A time with its unit. */
function duration(nanoseconds) {
  if (nanoseconds >= 1e9) return `${number(nanoseconds / 1e9)} s`;
  return nanoseconds >= 1e6 ? `${number(nanoseconds / 1e6)} ms` : `${number(nanoseconds / 1e3)} us`;
}

function byteText(count) {
  const power = count < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(count) / 10));
  return `${number(count / 1024 ** power)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

/** A text that fits, with an ellipsis where it is cut; empty if only a letter or two would remain. */
function fitting(whole, most) {
  if (most < 24) return "";
  if (textWidth(whole) <= most) return whole;
  let [low, high] = [0, whole.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (textWidth(`${whole.slice(0, middle)}…`) <= most) low = middle;
    else high = middle - 1;
  }
  return low > 2 ? `${whole.slice(0, low)}…` : "";
}

/** A block of a flame graph or timeline with its label. */
function block(x, y, width, kind, title) {
  const drawn = svg("g", { class: `block ${KIND_TONES[kind][0]}` }, svg("rect", { x, y, width: Math.max(width, 0.5), height: ROW_HEIGHT - 2 }));
  const shown = fitting(title, width - 8);
  if (shown) drawn.append(label(x + 4, y + 13, shown));
  return drawn;
}

const legendOf = (kinds) => [...new Set(kinds)].map((kind) => make("li", { class: KIND_TONES[kind][0] }, KIND_TONES[kind][1]));

/** Evenly spaced ticks from `low` to `high` at 1, 2 or 5 times powers of ten. */
function evenTicks(low, high, most) {
  const rough = (high - low) / most;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * unit).find((each) => each >= rough * 0.9999);
  const ticks = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high * (1 + 1e-9); at += 1) ticks.push(at * step);
  return ticks;
}

/** The axis of times on top: grid lines with labels. */
function timeAxis(root, x, low, high, left, right, bottom) {
  for (const tick of evenTicks(low, high, Math.max(2, (right - left) / 110))) {
    const shown = tick === 0 ? "0" : duration(tick);
    const half = textWidth(shown) / 2;
    root.append(line(x(tick), 18, x(tick), bottom, "grid"), label(Math.min(Math.max(x(tick), left + half), right - half), 12, shown, { "text-anchor": "middle", class: "tick" }));
  }
}

// The flame graph: the nodes of the tree in the order of a walk, each with the index of its parent.

let flameRoot = 0;
const flames = new Map();

function flameNodes(profile) {
  if (flames.has(profile)) return flames.get(profile);
  const { names, kinds, nodes } = profile.flame;
  const found = [];
  const above = [];
  for (let at = 0; at < nodes.length; at += 5) {
    const [name, kind, depth, host, device] = nodes.slice(at, at + 5);
    above.length = depth;
    const node = { index: found.length, name: names[name], kind: kinds[kind], depth, host, device, parent: above.at(-1) ?? null, children: [] };
    node.parent?.children.push(node);
    above.push(node);
    found.push(node);
  }
  flames.set(profile, found);
  return found;
}

const flameClock = () => byId("flame-clock").value;

function flamePlot(width, profile) {
  const clock = flameClock();
  const nodes = flameNodes(profile);
  const shown = nodes[flameRoot];
  const root = svg("g");
  const points = [];
  let depth = 0;
  const place = (node, x, space) => {
    if (space < 0.4) return;
    const y = node.depth * ROW_HEIGHT;
    depth = Math.max(depth, node.depth + 1);
    root.append(block(x, y, space - 0.5, node.kind, node.name));
    const share = (node[clock] / Math.max(1, nodes[0][clock])) * 100;
    points.push({ x: x + space / 2, y: y + 9, box: [x, y, x + space, y + ROW_HEIGHT], text: `${node.name}: ${duration(node[clock])}, ${share.toFixed(share < 10 ? 1 : 0)} % of the recording`, open: () => showFlame(profile, node.index) });
    let from = x;
    for (const child of node.children) {
      const part = (child[clock] / Math.max(1, node[clock])) * space;
      place(child, from, part);
      from += part;
    }
  };
  const ancestors = [];
  for (let each = shown.parent; each; each = each.parent) ancestors.unshift(each);
  for (const each of ancestors) {
    root.append(block(0, each.depth * ROW_HEIGHT, width - 0.5, each.kind, each.name));
    points.push({ x: width / 2, y: each.depth * ROW_HEIGHT + 9, box: [0, each.depth * ROW_HEIGHT, width, (each.depth + 1) * ROW_HEIGHT], text: `${each.name}: back to ${duration(each[clock])}`, open: () => showFlame(profile, each.index) });
  }
  place(shown, 0, width);
  return { root, height: depth * ROW_HEIGHT + 2, points };
}

function showFlame(profile, index) {
  flameRoot = index;
  byId("flame-whole").disabled = index === 0;
  showChart(byId("flame-plot"), "Flame graph of the step; the table of the operators has the numbers. Enter shows a block alone", (width) => flamePlot(width, profile));
}

// The timeline: tracks of blocks, of which a part of the time is visible.

const timelines = new Map();
let visible = [0, 1];

function timelineSpans(profile) {
  if (timelines.has(profile)) return timelines.get(profile);
  const { names, kinds, details, spans, launches } = profile.timeline;
  const found = [];
  let before = 0;
  for (let at = 0; at < spans.length; at += 7) {
    const [track, depth, start, length, name, detail, kind] = spans.slice(at, at + 7);
    before += start;
    found.push({ track, depth, start: before, end: before + length, name: names[name], detail: detail < 0 ? "" : details[detail], kind: kinds[kind] });
  }
  for (let at = 0; at < launches.length; at += 2) {
    found[launches[at]].work = found[launches[at + 1]];
    found[launches[at + 1]].launch = found[launches[at]];
  }
  timelines.set(profile, found);
  return found;
}

function timelinePlot(width, profile) {
  const spans = timelineSpans(profile);
  const [low, high] = visible;
  const x = (moment) => ((moment - low) / (high - low)) * width;
  const root = svg("g");
  const [grid, marks] = [svg("g"), svg("g")];
  root.append(grid, marks);
  const depths = profile.timeline.tracks.map(() => 0);
  for (const span of spans) depths[span.track] = Math.max(depths[span.track], span.depth + 1);
  const tops = [];
  let top = 24;
  profile.timeline.tracks.forEach(({ name }, index) => {
    marks.append(label(0, top + 12, fitting(name, width) || name, { class: "tick" }));
    tops.push(top + 18);
    top += 18 + depths[index] * ROW_HEIGHT + 6;
  });
  timeAxis(grid, x, low, high, 0, width, top);
  const points = [];
  const drawn = new Map();
  for (const span of spans) {
    if (span.end < low || span.start > high) continue;
    const [from, to] = [Math.max(x(span.start), 0), Math.min(x(span.end), width)];
    const y = tops[span.track] + span.depth * ROW_HEIGHT;
    const row = `${span.track} ${span.depth}`;
    // Blocks of less than a pixel hide each other: one of them stands for all.
    if (to - from < 0.7 && to - (drawn.get(row) ?? -Infinity) < 0.7) continue;
    drawn.set(row, to);
    marks.append(block(from, y, to - from - 0.5, span.kind, span.name));
    const linked = span.work ? `; starts ${span.work.name} after ${duration(span.work.start - span.start)}` : span.launch ? `; enqueued ${duration(span.start - span.launch.start)} before` : "";
    points.push({ x: (from + to) / 2, y: y + 9, box: [from, y, Math.max(to, from + 1), y + ROW_HEIGHT], text: `${span.name}: ${duration(span.end - span.start)}, from ${duration(span.start)}${linked}${span.detail ? `; ${span.detail}` : ""}`, open: () => zoomTo(profile, span.start, span.end) });
  }
  const launches = spans.filter(({ work, start }) => work && start >= low && work.start <= high && x(work.start) - x(start) > 3);
  for (const { work, start, track, depth } of launches.length <= MAX_LINES ? launches : []) {
    const [from, to] = [x(start), x(work.start)];
    if (to <= width) marks.append(line(from, tops[track] + (depth + 1) * ROW_HEIGHT - 2, to, tops[work.track], "leader"));
  }
  return { root, height: top, points };
}

/** Show the part of the time from `low` to `high`, at least 100 ns. */
function zoomTo(profile, low, high) {
  const least = Math.max(100, (high - low) * 1.04);
  const middle = (low + high) / 2;
  const end = profile.nanoseconds;
  const length = Math.min(least, end);
  const from = Math.min(Math.max(middle - length / 2, 0), end - length);
  visible = [from, from + length];
  byId("timeline-note").textContent = `${duration(visible[0])} to ${duration(visible[1])} of ${duration(end)}`;
  redraw(byId("timeline-plot"));
}

function zoomBy(profile, factor, shift) {
  const [low, high] = visible;
  const [middle, half] = [(low + high) / 2 + shift * (high - low), ((high - low) / 2) * factor];
  zoomTo(profile, middle - half / 1.04, middle + half / 1.04);
}

function showTimeline(profile) {
  visible = [0, profile.nanoseconds];
  showChart(byId("timeline-plot"), "Timeline of the step; the table of the operators has the numbers. Enter zooms to a block", (width) => timelinePlot(width, profile));
  zoomTo(profile, 0, profile.nanoseconds);
  const left = profile.timeline.left_out;
  byId("timeline-left").textContent = left ? `The ${left.toLocaleString("en")} shortest of ${(left + profile.timeline.spans.length / 7).toLocaleString("en")} spans are left out; Perfetto shows all of the file.` : "";
}

// Live memory: an area for each site, on top of each other.

function memoryPlot(width, memory) {
  const [left, right, top, bottom] = [76, width - 12, 24, 264];
  const { moments, sites, peak } = memory;
  const [low, high] = [moments[0], Math.max(moments.at(-1), moments[0] + 1)];
  const x = (moment) => left + ((moment - low) / (high - low)) * (right - left);
  const y = (bytes) => bottom - (bytes / peak) * (bottom - top);
  const root = svg("g");
  timeAxis(root, x, low, high, left, right, bottom);
  const unit = 1024 ** Math.max(0, Math.floor(Math.log2(peak) / 10));
  for (const tick of evenTicks(0, peak / unit, 4)) {
    const at = y(tick * unit);
    root.append(line(left, at, right, at, "grid"), label(left - 6, at + 4, byteText(tick * unit), { "text-anchor": "end", class: "tick" }));
  }
  const floor = moments.map(() => 0);
  const points = [];
  const peakAt = moments.indexOf(memory.peak_moment);
  sites.forEach((site, index) => {
    const upper = floor.map((bytes, at) => bytes + site.bytes[at]);
    const corners = (level) => moments.flatMap((moment, at) => [[x(moment), y(level[at])], [at + 1 < moments.length ? x(moments[at + 1]) : right, y(level[at])]]);
    const path = [...corners(upper), ...corners(floor).reverse()].map(([px, py]) => `${px.toFixed(1)},${py.toFixed(1)}`);
    root.append(svg("polygon", { points: path.join(" "), class: `area series-${index % 10}`, "data-group": `site-${index}` }));
    const most = site.at_peak ? peakAt : site.bytes.indexOf(Math.max(...site.bytes));
    points.push({ x: x(moments[most]), y: (y(upper[most]) + y(floor[most])) / 2, group: `site-${index}`, text: `${site.name}: ${byteText(site.at_peak)} at the peak, at most ${byteText(site.most)}, ${site.allocations} allocations` });
    for (let at = 0; at < moments.length; at += Math.ceil(moments.length / 40)) {
      if (site.bytes[at]) points.push({ x: x(moments[at]), y: (y(upper[at]) + y(floor[at])) / 2, group: `site-${index}`, text: `${site.name}: ${byteText(site.bytes[at])} at ${duration(moments[at])}` });
    }
    upper.forEach((bytes, at) => (floor[at] = bytes));
  });
  points.sort((a, b) => a.x - b.x);
  root.append(line(x(memory.peak_moment), top, x(memory.peak_moment), bottom, "level"));
  return { root, height: bottom + 8, points };
}

function showMemory(memory) {
  byId("memory-note").textContent = `At most ${byteText(memory.peak)} at once, of what was allocated during the recording. The dashed line is that moment.`;
  byId("memory-legend").replaceChildren(...memory.sites.map(({ name }, index) => make("li", { class: `series-${index % 10}` }, name)));
  showChart(byId("memory-plot"), `Live memory of ${memory.device} by allocation site; the table has the numbers`, (width) => memoryPlot(width, memory));
  showTable("memory-table", `Allocation sites of ${memory.device}`, [
    text("site", (site) => site.name),
    numeric("at the peak", (site) => site.at_peak, byteText),
    numeric("at most", (site) => site.most, byteText),
    numeric("allocations", (site) => site.allocations, String),
  ], memory.sites);
}

function showOperators(profile) {
  const predicted = (row) => (known(row.predicted_work) ? row.predicted_work + row.predicted_overhead : null);
  const hasDevice = profile.operators.some((row) => row.device);
  const isPositive = (value) => (row) => (value(row) ? value(row) : null);
  showTable("operators-table", "Operators of a step: own times, without called operators", [
    text("operator", (row) => row.name),
    numeric("calls", (row) => row.calls, String),
    numeric("predicted calls", (row) => row.predicted_calls, String),
    numeric("host, us", isPositive((row) => row.host), microseconds),
    hasDevice ? numeric("predicted host, us", (row) => row.predicted_overhead, microseconds) : numeric("predicted, us", predicted, microseconds),
    hasDevice ? numeric("device, us", isPositive((row) => row.device), microseconds) : null,
    hasDevice ? numeric("predicted device, us", (row) => row.predicted_work, microseconds) : null,
  ], profile.operators);
}

function drawProfile(profile) {
  byId("profile-sentences").replaceChildren(...profile.sentences.map((each) => make("li", {}, each)));
  const isTrace = Boolean(profile.timeline);
  byId("profile-trace").hidden = !isTrace;
  if (isTrace) {
    const kinds = flameNodes(profile).map(({ kind }) => kind).concat(timelineSpans(profile).map(({ kind }) => kind));
    byId("flame-legend").replaceChildren(...legendOf(kinds));
    const [whole] = flameNodes(profile);
    byId("flame-clock").parentElement.hidden = !whole.device || !whole.host;
    byId("flame-clock").value = whole.host ? "host" : "device";
    showFlame(profile, 0);
    showTimeline(profile);
    showOperators(profile);
  }
  byId("profile-memory").hidden = !profile.memory.length;
  const select = byId("memory-device");
  select.parentElement.hidden = profile.memory.length < 2;
  select.replaceChildren(...profile.memory.map(({ device }, index) => make("option", { value: index }, device)));
  const largest = profile.memory.reduce((best, each, index, all) => (each.peak > all[best].peak ? index : best), 0);
  if (profile.memory.length) {
    select.value = String(largest);
    showMemory(profile.memory[largest]);
  }
}

function prepareProfiles() {
  byId("profiles").hidden = !PROFILES.length;
  if (!PROFILES.length) return;
  const select = byId("profile-choice");
  select.append(...PROFILES.map(({ name }, index) => make("option", { value: index }, name)));
  select.parentElement.hidden = PROFILES.length < 2;
  const chosen = () => PROFILES[Number(select.value)];
  select.addEventListener("change", () => drawProfile(chosen()));
  byId("flame-clock").addEventListener("change", () => showFlame(chosen(), 0));
  byId("flame-whole").addEventListener("click", () => showFlame(chosen(), 0));
  byId("memory-device").addEventListener("change", (event) => showMemory(chosen().memory[Number(event.target.value)]));
  for (const [id, factor, shift] of [["timeline-in", 0.5, 0], ["timeline-out", 2, 0], ["timeline-left-button", 1, -0.4], ["timeline-right-button", 1, 0.4]]) {
    byId(id).addEventListener("click", () => zoomBy(chosen(), factor, shift));
  }
  byId("timeline-whole").addEventListener("click", () => zoomTo(chosen(), 0, chosen().nanoseconds));
  drawProfile(PROFILES[0]);
}
