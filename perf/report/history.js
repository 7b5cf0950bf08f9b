// The history of one benchmark, and the benchmarks that changed.

let shownBenchmark = null;

/** Show a benchmark's history, and move the focus there. */
function openBenchmark(row) {
  const select = byId("history-benchmark");
  if (byId("history").hidden || ![...select.options].some(({ value }) => value === String(row.index))) return;
  select.value = String(row.index);
  drawBenchmark(row);
  byId("history").scrollIntoView({ block: "start" });
  select.focus({ preventScroll: true });
}

/** Offer the benchmarks that several runs have, those that changed the most first. */
function showHistory(rows) {
  const held = rows.filter((row) => row.history.filter(known).length > 1);
  byId("history").hidden = !held.length;
  if (!held.length) return;
  const size = (row) => (row.change && ["slower", "faster"].includes(row.change.verdict) ? Math.abs(Math.log(row.change.ratio)) : 0);
  const changed = held.filter(size).sort((a, b) => size(b) - size(a));
  const option = (row) => make("option", { value: row.index }, row.label);
  const group = (name, members) => (members.length ? [make("optgroup", { label: name }, ...members.map(option))] : []);
  const select = byId("history-benchmark");
  select.replaceChildren(...group("changed since the last run", changed), ...[...grouped(held.filter((row) => !size(row)), (row) => row.suite)].flatMap(([suite, members]) => group(suite, members)));
  const wanted = held.includes(shownBenchmark) ? shownBenchmark : (changed[0] ?? held.find((row) => row.current && reasonOf(row)) ?? held[0]);
  select.value = String(wanted.index);
  drawBenchmark(wanted);
}

function drawBenchmark(row) {
  shownBenchmark = row;
  const peer = visiblePeers().find((name) => row.history.some((each) => known(each?.ratios[name]))) ?? null;
  const runs = DATA.files.map((_, index) => index).filter((index) => row.history[index]);
  const baseline = (run) => (known(row.history[run].ratios[peer]) ? row.history[run].median / row.history[run].ratios[peer] : null);
  showChart(byId("history-plot"), `Time of ${row.label} over the runs; the table has the numbers`, (width) => {
    const ends = [["triten", row.history[runs.at(-1)].median], [peer, peer === null ? null : runs.map(baseline).filter(known).at(-1)]].filter(([, value]) => known(value));
    const texts = ends.map(([name, value]) => `${name} ${microseconds(value)} us`);
    const [left, right, top, bottom] = [52, width - Math.max(...texts.map((each) => textWidth(each, 600))) - 18, 30, 260];
    const values = runs.flatMap((run) => [row.history[run].median, row.history[run].low, row.history[run].high, peer === null ? null : baseline(run)]);
    const y = logScale(values.filter(known).map((each) => each * 1e6), bottom, top, 0.1);
    const x = (run) => left + 10 + (runs.indexOf(run) / Math.max(runs.length - 1, 1)) * (right - left - 20);
    const root = svg("g");
    gridY(root, y, left, right);
    root.append(label(0, 14, "time of a call, us", { class: "tick" }));
    dates(root, runs, x, bottom + 22);
    const points = [];
    const polyline = (kind, value) => svg("polyline", { points: runs.filter((run) => known(value(run))).map((run) => `${x(run).toFixed(1)},${y(value(run) * 1e6).toFixed(1)}`).join(" "), class: kind });
    if (peer !== null) root.append(polyline("line baseline", baseline));
    root.append(polyline("line accent", (run) => row.history[run].median));
    for (const run of runs) {
      const { median, low, high, ratios } = row.history[run];
      if (known(low) && known(high)) root.append(line(x(run), y(low * 1e6), x(run), y(high * 1e6), "interval accent"));
      root.append(svg("circle", { cx: x(run), cy: y(median * 1e6), r: 3.5, class: "dot accent" }));
      const interval = known(low) ? ` [${microseconds(low)}, ${microseconds(high)}]` : "";
      const over = known(ratios[peer]) ? `, ${times(1 / ratios[peer])} over ${peer}` : "";
      points.push({ x: x(run), y: y(median * 1e6), text: `${DATA.files[run].label} (${dayOf(DATA.files[run])}): ${microseconds(median)} us${interval}${over}` });
    }
    const placed = apart(ends.map(([, value]) => y(value * 1e6)), ends.map(() => LINE_HEIGHT), top, bottom);
    texts.forEach((each, at) => root.append(label(right + 10, placed[at] + 12, each, { class: at === 0 ? "strong" : null })));
    return { root, height: bottom + 34, points };
  });
  const renamed = row.renamed_from.length ? ` Earlier name: ${row.renamed_from.join(", ")}.` : "";
  byId("history-note").textContent = `${runs.length} of ${DATA.files.length} runs have this benchmark.${renamed}`;
  showTable("history-table", row.label, [
    text("commit", (run) => DATA.files[run].label),
    text("committed", (run) => (DATA.files[run].time ?? DATA.files[run].started).slice(0, 10)),
    numeric("triten, us", (run) => row.history[run].median, microseconds),
    text("interval, us", (run) => (known(row.history[run].low) ? `${microseconds(row.history[run].low)} to ${microseconds(row.history[run].high)}` : "")),
    ...visiblePeers().map((name) => numeric(`over ${name}`, (run) => inverse(row.history[run].ratios[name]), times)),
  ], runs);
}
