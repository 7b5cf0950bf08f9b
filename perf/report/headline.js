// The first screen: sentences, tiles, the headline chart, and the suites with their sparklines.

function showAbout() {
  const last = DATA.files[LAST];
  const said = [
    last.label,
    last.machine.gpu ?? last.machine.processor,
    last.settings.threads > 1 ? `${last.settings.threads} threads` : null,
    new Date(last.started).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" }),
    last.settings.quick ? "quick run" : null,
    DATA.files.length > 1 ? `${DATA.files.length} runs` : null,
  ];
  byId("about").textContent = said.filter((part) => part).join(" · ");
  byId("doubts").replaceChildren(...DATA.doubts.map((doubt) => make("li", {}, doubt)));
  byId("sentences").replaceChildren(...DATA.summary.sentences.map((each) => make("li", {}, each)));
  byId("tiles").replaceChildren(
    ...DATA.summary.tiles.map((tile) =>
      make(
        "div",
        { class: `tile ${tile.state}` },
        make("dt", {}, tile.name),
        make("dd", {}, make("span", { class: "value" }, tile.value), tile.trend ? marked(TRENDS[tile.trend]) : null, make("span", { class: "note" }, tile.note)),
      ),
    ),
  );
}

/** The suites that have a speed-up over the baseline, with their values: over the runs, and of each benchmark. */
function suitesOf(peer) {
  const several = new Set(DATA.suites.map((each) => each.device)).size > 1;
  return DATA.suites
    .filter((each) => each.means[peer])
    .map((each, index) => ({
      ...each,
      group: `suite-${index}`,
      title: several ? `${each.suite} (${each.device})` : each.suite,
      speed: 1 / each.means[peer].mean,
      members: DATA.rows.filter((row) => row.current && row.suite === each.suite && row.device === each.device),
      speeds: each.history.map((run) => inverse(run?.means[peer])),
    }));
}

const hasHistory = (suites) => suites.some(({ speeds }) => speeds.filter(known).length > 1);

function drawHeadline() {
  const peer = mainPeer();
  const suites = peer === null ? [] : suitesOf(peer);
  byId("headline").hidden = !suites.length;
  if (!suites.length) return;
  const over = hasHistory(suites);
  byId("headline-title").textContent = over ? `Speed-up over ${peer} by suite, over time` : `Speed-up over ${peer} by suite`;
  const seen = new Set(over ? suites.flatMap(({ history }) => history.filter(known).map(({ state }) => state)) : []);
  const legend = over
    ? Object.entries(STATES).filter(([name]) => seen.has(name)).map(([, state]) => [state.tone, state.text])
    : [["good", "target met"], ["warning", "inconclusive"], ["bad", "target missed"], ["neutral", "no target"]];
  byId("headline-legend").replaceChildren(...legend.map(([tone, text]) => make("li", { class: tone }, text)));
  byId("first").classList.toggle("history", over);
  const name = `${byId("headline-title").textContent}; the table of the suites has the numbers`;
  showChart(byId("headline-plot"), name, (width) => (over ? headlineLines(width, suites, peer) : headlineDots(width, suites, peer)));
}

/** A line for each suite, colored by its targets; names stand at the ends of the lines. */
function headlineLines(width, suites, peer) {
  const all = { title: "all benchmarks", group: "all", speeds: DATA.totals.history.map((run) => inverse(run?.means[peer])), history: DATA.totals.history };
  const lines = (suites.length > 1 ? [...suites, all] : suites).filter(({ speeds }) => speeds.some(known));
  const runs = DATA.files.map((_, index) => index).filter((index) => lines.some(({ speeds }) => known(speeds[index])));
  const ends = lines.map(({ title, speeds }) => `${title} ${times(speeds.filter(known).at(-1))}`);
  const most = Math.max(90, Math.min(width * 0.42, Math.max(...ends.map((each) => textWidth(each, 600))) + 4));
  const texts = ends.map((each) => wrapped(each, most));
  const right = width - Math.ceil(Math.max(...texts.flat().map((each) => textWidth(each, 600)))) - 22;
  const rows = texts.reduce((sum, each) => sum + each.length, 0);
  const height = Math.max(narrow.matches ? 300 : 420, rows * LINE_HEIGHT + 3 * lines.length + 10);
  const [left, top, bottom] = [36, 16, height - 34];
  const y = logScale([1, ...lines.flatMap(({ speeds }) => speeds.filter(known))], bottom, top);
  const x = (run) => (runs.length > 1 ? left + 8 + (runs.indexOf(run) / (runs.length - 1)) * (right - left - 16) : (left + right) / 2);
  const root = svg("g");
  gridY(root, y, left, right);
  root.append(line(left, y(1), right, y(1), "level"));
  dates(root, runs, x, bottom + 20);
  const points = [];
  const placed = apart(
    lines.map(({ speeds }) => y(speeds.filter(known).at(-1))),
    texts.map((each) => each.length * LINE_HEIGHT + (narrow.matches ? 3 : 0)),
    2,
    height - 6,
  );
  lines.forEach(({ title, group, speeds, history }, index) => {
    const present = runs.filter((run) => known(speeds[run]));
    const drawn = svg("g", { "data-group": group, class: group === "all" ? "all" : null });
    present.forEach((run, at) => {
      const state = STATES[history[run].state];
      const [px, py] = [x(run), y(speeds[run])];
      const before = present[at - 1];
      if (known(before) && DATA.files[before].environment === DATA.files[run].environment) {
        drawn.append(line(x(before), y(speeds[before]), px, py, `line ${state.tone}`));
      }
      const isEnd = at === present.length - 1;
      if (isEnd || present.length < 16) drawn.append(svg("circle", { cx: px, cy: py, r: isEnd ? 4 : 2.5, class: `dot ${state.tone}` }));
      const { met, missed, unsure } = history[run];
      const targets = met + missed + unsure ? `, ${met} of ${met + missed + unsure} targets met` : "";
      const text = `${title}: ${times(speeds[run])} over ${peer} at ${DATA.files[run].label} (${dayOf(DATA.files[run])}); ${history[run].count} benchmarks${targets}`;
      points.push({ x: px, y: py, text, group });
    });
    const end = present.at(-1);
    const shown = svg("g", { "data-group": group });
    shown.append(line(x(end) + 5, y(speeds[end]), right + 16, placed[index] + LINE_HEIGHT / 2, "leader"));
    texts[index].forEach((each, at) => shown.append(label(right + 20, placed[index] + 12 + at * LINE_HEIGHT, each, { class: group === "all" ? "strong" : null })));
    root.append(drawn, shown);
  });
  return { root, height, points };
}

/** The dates of the runs, as many as fit, the last one always. */
function dates(root, runs, x, height) {
  let free = Infinity;
  for (const run of [...runs].reverse()) {
    const text = dayOf(DATA.files[run]);
    const half = textWidth(text) / 2;
    if (x(run) + half + 14 > free) continue;
    root.append(label(x(run), height, text, { "text-anchor": "middle", class: "tick" }));
    free = x(run) - half;
  }
}

/** A strip of dots for each suite: its benchmarks, colored by their targets, and the geometric mean as a stroke. */
function headlineDots(width, suites, peer) {
  const lines = suites.map((suite) => ({
    label: suite.title,
    value: times(suite.speed),
    strokes: [{ value: suite.speed, kind: "mean" }],
    dots: suite.members
      .filter((row) => row.ratios[peer])
      .map((row) => ({ ...speedUp(row.ratios[peer]), low: null, tone: toneOf(row, peer), symbol: 0, text: `${row.label}: ${speedText(speedUp(row.ratios[peer]))} over ${peer}`, open: () => openBenchmark(row) })),
  }));
  return dotPlot(width, lines, { level: 1 });
}

/** The color of a benchmark's point: the verdict of its target. */
const toneOf = (row, peer) => (row.bar?.peer === peer ? (VERDICTS[row.verdict] ?? "neutral") : "neutral");

function sparkline(values, tone) {
  const [width, height] = [110, 24];
  const present = values.map((value, at) => [at, value]).filter(([, value]) => known(value));
  const y = logScale(present.map(([, value]) => value), height - 4, 4, 0);
  const x = (at) => 4 + (at / Math.max(values.length - 1, 1)) * (width - 8);
  const path = present.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  const [end, last] = present.at(-1);
  return svg(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", class: "sparkline" },
    svg("polyline", { points: path, class: "line neutral" }),
    svg("circle", { cx: x(end), cy: y(last), r: 3, class: `dot ${tone}` }),
  );
}

/** The suites as a table: the state of the targets, the speed-up with its trend, and its course over the runs. */
function showSuites() {
  const peer = mainPeer();
  const over = peer !== null && hasHistory(suitesOf(peer));
  const records = DATA.suites
    .filter((each) => each.means[peer] || each.state !== "none")
    .map((each) => ({ ...each, speeds: each.history.map((run) => inverse(run?.means[peer])) }));
  const targets = (each) => each.met + each.missed + each.unsure;
  const several = new Set(records.map(({ device }) => device)).size > 1;
  const speed = (each) => inverse(each.means[peer]?.mean);
  const trend = (each) => (each.trend[peer] ? marked(TRENDS[each.trend[peer].direction]) : null);
  showTable("suites-table", "Suites: geometric means of the speed-ups, and targets met", [
    { ...text("suite", (each) => each.suite), cell: (each) => make("span", { class: "named" }, marked(STATES[each.state]), make("span", {}, each.suite)) },
    several ? text("device", (each) => each.device) : null,
    peer === null ? null : { ...numeric(`over ${peer}`, speed, times), cell: (each) => (known(speed(each)) ? make("span", { class: "trend" }, times(speed(each)), trend(each)) : "") },
    over ? { ...text("history", () => ""), cell: (each) => (each.speeds.filter(known).length > 1 ? sparkline(each.speeds, STATES[each.state].tone) : "") } : null,
    numeric("targets", (each) => (targets(each) ? each.met / targets(each) : null), (share) => share, (each) => (targets(each) ? `${each.met} of ${targets(each)}` : "")),
    numeric("mean's target", (each) => inverse(each.bar?.least), times),
  ], records);
}
