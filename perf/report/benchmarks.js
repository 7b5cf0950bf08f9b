// Charts of the benchmarks: speed-ups by suite, the roofline, and small calls.

/**
 * Dots on a logarithmic axis, a line for each label.
 *
 * A line has `label`, optionally `value` (a text at the right), `dots` (value, low, high, tone, symbol, text, open)
 * and `strokes` (value, kind, text). `level` marks a value of all lines.
 */
function dotPlot(width, lines, { level = null } = {}) {
  const isNarrow = narrow.matches;
  const valueWidth = Math.max(0, ...lines.map((each) => textWidth(each.value ?? "", 600))) + 8;
  const labelWidth = isNarrow ? width - valueWidth - 8 : Math.min(width * 0.42, Math.max(...lines.map((each) => textWidth(each.label))) + 2);
  const [left, right] = [isNarrow ? 8 : labelWidth + 18, width - valueWidth - (isNarrow ? 0 : 8)];
  const every = lines.flatMap(({ dots, strokes = [] }) => [...dots.flatMap(({ value, low, high }) => [value, low, high]), ...strokes.map(({ value }) => value)]);
  const x = logScale([...every.filter(known), ...(level === null ? [] : [level])], left, right);
  const root = svg("g");
  const [grid, marks] = [svg("g"), svg("g")];
  root.append(grid, marks);
  const points = [];
  let top = 26;
  for (const { label: name, value, dots, strokes = [] } of lines) {
    const texts = wrapped(name, labelWidth);
    const above = isNarrow ? texts.length * LINE_HEIGHT + 2 : 0;
    const height = isNarrow ? above + 22 : Math.max(22, texts.length * LINE_HEIGHT + 7);
    const y = isNarrow ? top + above + 9 : top + height / 2;
    const first = isNarrow ? top + 12 : y + 4 - ((texts.length - 1) * LINE_HEIGHT) / 2;
    texts.forEach((each, at) => marks.append(label(isNarrow ? 0 : labelWidth, first + at * LINE_HEIGHT, each, { "text-anchor": isNarrow ? "start" : "end" })));
    marks.append(line(left, y, right, y, "rail"));
    if (value) marks.append(label(width, y + 4, value, { "text-anchor": "end", class: "strong" }));
    for (const each of strokes) {
      marks.append(svg("line", { x1: x(each.value), x2: x(each.value), y1: y - 8, y2: y + 8, class: each.kind }));
    }
    for (const dot of dots) {
      if (known(dot.low) && known(dot.high)) marks.append(line(x(dot.low), y, x(dot.high), y, `interval ${dot.tone}`));
      marks.append(symbol(SYMBOLS[dot.symbol % SYMBOLS.length], x(dot.value), y, 4, { class: `dot ${dot.tone}` }));
      points.push({ x: x(dot.value), y, text: dot.text, open: dot.open });
    }
    top += height;
  }
  gridX(grid, x, 22, top, 14);
  if (level !== null) grid.append(line(x(level), 22, x(level), top, "level"));
  return { root, height: top + 6, points };
}

/** The speed-ups of a suite's benchmarks over the baselines, with intervals and targets. */
function speedPlot(width, rows, peers) {
  const lines = rows.map((row) => ({
    label: nameOf(row),
    strokes: row.bar && peers.includes(row.bar.peer) ? [{ value: 1 / row.bar.most, kind: "target" }] : [],
    dots: peers
      .filter((peer) => row.ratios[peer])
      .map((peer) => {
        const speed = speedUp(row.ratios[peer]);
        const target = row.bar?.peer === peer ? `; target ${targetText(row)}: ${verdictText(row)}` : "";
        return { ...speed, tone: toneOf(row, peer), symbol: DATA.peers.indexOf(peer), text: `${nameOf(row)}: ${speedText(speed)} over ${peer}${target}`, open: () => openBenchmark(row) };
      }),
  }));
  return dotPlot(width, lines, { level: 1 });
}

const opened = new Map();

/** A chart for each suite, drawn when it is opened. The first suite that misses targets is open. */
function drawSpeed(rows, peers) {
  const measured = rows.filter((row) => row.current && peers.some((peer) => row.ratios[peer]));
  byId("speed").hidden = !measured.length;
  const groups = [...grouped(measured, (row) => JSON.stringify([row.suite, row.device])).values()];
  const state = ([{ suite, device }]) => DATA.suites.find((each) => each.suite === suite && each.device === device).state;
  const urgent = groups.find((members) => state(members) === "missed") ?? groups.find((members) => state(members) === "partly") ?? groups[0];
  byId("speed-charts").replaceChildren(
    ...groups.map((members) => {
      const { suite, device } = members[0];
      const key = `${suite} ${device}`;
      const place = make("div");
      const means = peers.map((peer) => [peer, geometricMean(members.filter((row) => row.in_means && row.ratios[peer]).map((row) => 1 / row.ratios[peer].ratio))]);
      const said = [`${members.length} benchmarks`, ...means.filter(([, mean]) => known(mean)).map(([peer, mean]) => `${times(mean)} over ${peer}`)];
      const isOpen = opened.get(key) ?? (groups.length === 1 || members === urgent);
      const details = make("details", isOpen ? { open: "" } : {}, make("summary", {}, marked(STATES[state(members)]), ` ${suite} `, make("span", { class: "note" }, said.join(" · "))), place);
      const draw = () => showChart(place, `Speed-ups of ${suite}`, (width) => speedPlot(width, members, peers));
      details.addEventListener("toggle", () => {
        opened.set(key, details.open);
        if (details.open && !place.childElementCount) draw();
      });
      if (isOpen) requestAnimationFrame(() => place.isConnected && !place.childElementCount && draw());
      return details;
    }),
  );
  const shapes = ["●", "◆", "■", "▲"];
  byId("speed-legend").replaceChildren(...(peers.length > 1 ? peers.map((peer) => make("li", {}, `${shapes[DATA.peers.indexOf(peer) % 4]} ${peer}`)) : []));
}

function drawRoofline(rows) {
  const held = rows.filter((row) => row.current && row.intensity && row.flops_per_second);
  byId("roofline").hidden = !held.length;
  if (!held.length) return;
  const suites = [...new Set(held.map((row) => row.suite))];
  const limits = [];
  for (const [device, members] of grouped(held, (row) => row.device)) {
    const found = DATA.files[Math.max(...members.map((row) => row.file))].limits;
    const copy = found.copy_bytes_per_second;
    for (const [dtype, peak] of Object.entries(found.matrix_flops_per_second)) limits.push({ device, dtype, peak, copy, knee: copy ? peak / copy : null });
  }
  byId("roofline-legend").replaceChildren(...suites.map((suite, index) => make("li", { class: `series-${index % 10}` }, suite)));
  showChart(byId("roofline-plot"), "Roofline: operations per second over operations per byte; the table has the numbers", (width) => {
    const [left, right, top, bottom] = [56, width - 12, 24, 330];
    const x = logScale(held.map((row) => row.intensity), left, right, 0.1);
    const y = logScale([...held.map((row) => row.flops_per_second), ...limits.map(({ peak }) => peak)], bottom, top);
    const root = svg("g");
    gridX(root, x, top, bottom, bottom + 16);
    gridY(root, y, left, right);
    root.append(label((left + right) / 2, bottom + 34, "operations per byte", { "text-anchor": "middle", class: "tick" }), label(0, 12, "operations per second", { class: "tick" }));
    for (const { dtype, device, peak, copy, knee } of limits) {
      const start = copy ? Math.max(x.low, y.low / copy) : x.low;
      const at = copy ? [start, knee, x.high].filter((each) => each >= start && each <= x.high) : [x.low, x.high];
      const path = at.map((each) => `${x(each)},${y(copy ? Math.min(peak, each * copy) : peak)}`);
      root.append(svg("polyline", { points: path.join(" "), class: "limit" }), label(right, y(peak) - 4, `${dtype} matmul, ${device}`, { "text-anchor": "end", class: "tick" }));
    }
    const points = held.map((row) => {
      const group = `roof-${suites.indexOf(row.suite)}`;
      const each = { x: x(row.intensity), y: y(row.flops_per_second), group, text: `${row.label}: ${giga(row.flops_per_second)} GFLOP/s, ${percent(row.of_limit)} of the limit`, open: () => openBenchmark(row) };
      root.append(svg("circle", { cx: each.x, cy: each.y, r: 4, class: `dot series-${suites.indexOf(row.suite) % 10}`, "data-group": group }));
      return each;
    });
    return { root, height: bottom + 42, points };
  });
  showTable("limits-table", "Limits, measured in the same run", [
    text("dtype", (each) => each.dtype),
    text("device", (each) => each.device),
    numeric("matmul, GFLOP/s", (each) => each.peak, giga),
    numeric("copy, GB/s", (each) => each.copy, giga),
    numeric("operations per byte where they meet", (each) => each.knee),
  ], limits);
  showTable("roofline-table", "Achieved rates", [
    text("benchmark", (row) => row.label),
    { ...text("device", (row) => row.device), varied: true },
    numeric("operations per byte", (row) => row.intensity),
    numeric("GFLOP/s", (row) => row.flops_per_second, giga),
    numeric("GB/s", (row) => row.bytes_per_second, giga),
    text("limited by", (row) => ({ copy: "memory", matrix: "compute", call: "call" })[row.limit] ?? ""),
    numeric("of the limit", (row) => row.of_limit, percent),
  ], held);
}

/** The most seconds that a row's target accepts; null where none is known. */
function acceptedSeconds(row) {
  if (!row.bar) return null;
  if (row.bar.peer === null) return row.bar.most;
  const median = medianOf(row.bar.peer)(row);
  return median === null ? null : row.bar.most * median;
}

function drawOverhead(rows, peers) {
  const calls = rows.filter((row) => row.current && row.suite === "overhead" && row.summary[OURS]);
  byId("overhead").hidden = !calls.length;
  if (!calls.length) return;
  const mean = (members, value) => geometricMean(members.map(value).filter(known));
  const groups = [...grouped(calls, (row) => row.operator)].map(([group, members]) => ({
    group,
    calls: members.length,
    ours: mean(members, medianOf(OURS)),
    theirs: Object.fromEntries(peers.map((peer) => [peer, mean(members, medianOf(peer))])),
    speeds: Object.fromEntries(peers.map((peer) => [peer, mean(members, (row) => inverse(row.ratios[peer]?.ratio))])),
    accepted: mean(members, acceptedSeconds),
    missed: members.filter((row) => row.verdict === "MISSED").length,
  }));
  const lines = groups.map((each) => ({
    label: each.group,
    strokes: known(each.accepted) ? [{ value: each.accepted * 1e6, kind: "target" }] : [],
    dots: [
      { value: each.ours * 1e6, tone: each.missed ? "bad" : "good", symbol: 0, text: `${each.group}: triten ${microseconds(each.ours)} us` },
      ...peers.filter((peer) => known(each.theirs[peer])).map((peer) => ({ value: each.theirs[peer] * 1e6, tone: "neutral", symbol: 1 + DATA.peers.indexOf(peer), text: `${each.group}: ${peer} ${microseconds(each.theirs[peer])} us` })),
    ],
  }));
  showChart(byId("overhead-plot"), "Time of small calls by group, in microseconds; the table has the numbers", (width) => dotPlot(width, lines));
  showTable("overhead-table", "Small calls by group: geometric means", [
    text("group", (each) => each.group),
    numeric("calls", (each) => each.calls, String),
    numeric("triten, us", (each) => each.ours, microseconds),
    ...peers.map((peer) => numeric(`${peer}, us`, (each) => each.theirs[peer], microseconds)),
    numeric("accepted, us", (each) => each.accepted, microseconds),
    ...peers.map((peer) => numeric(`over ${peer}`, (each) => each.speeds[peer], times)),
    { ...numeric("targets missed", (each) => each.missed, String), tone: (each) => (each.missed ? "bad" : null) },
  ], groups);
}
