// Tables: a caption, column heads that sort, and a box of their own to scroll in. Empty columns are left out.

const sortings = new Map();

const text = (head, value) => ({ head, value, sort: value });
const numeric = (head, value, format = number, shown = null) => ({
  head,
  value: shown ?? ((row) => (known(value(row)) ? format(value(row)) : "")),
  sort: value,
  number: true,
});
const medianOf = (library) => (row) => row.summary[library]?.median ?? null;
const verdictColumn = { ...text("result", verdictText), tone: (row) => (isFailure(row) ? "bad" : VERDICTS[row.verdict] ?? null) };
const speedColumn = (peer) => numeric(`over ${peer}`, (row) => inverse(row.ratios[peer]?.ratio), times, (row) => speedText(speedUp(row.ratios[peer])));
/** A benchmark's name, which opens its history if there is one. */
const benchmarkColumn = (row, name = (each) => row(each).label) => ({
  ...text("benchmark", name),
  cell: (each) =>
    row(each).history.some(known) && DATA.files.length > 1
      ? make("button", { type: "button", class: "open", onclick: () => openBenchmark(row(each)) }, name(each))
      : name(each),
});

function ordered(records, column, sign) {
  const isPresent = ([key]) => known(key) && key !== "" && !Number.isNaN(key);
  const keyed = records.map((record) => [column.sort(record), record]);
  const present = keyed.filter(isPresent).sort(([a], [b]) => sign * (a < b ? -1 : a > b ? 1 : 0));
  return [...present, ...keyed.filter((each) => !isPresent(each))].map(([, record]) => record);
}

/** Show records in `place`; the first column names the row. A column with `varied` is shown only if its values differ. */
function showTable(place, caption, wanted, records) {
  const container = byId(place);
  const columns = wanted.filter((column, index) => {
    if (!column) return false;
    const values = records.map((record) => (column.cell ? column.cell(record) : column.value(record)));
    return index === 0 || (values.some((each) => known(each) && each !== "") && !(column.varied && new Set(values).size < 2));
  });
  const sorting = sortings.get(place);
  const by = columns.find((column) => sorting && column.head === sorting.head);
  const heads = columns.map((column) => {
    const direction = by === column ? (sorting.sign > 0 ? "ascending" : "descending") : "none";
    const sort = () => {
      const sign = by === column ? -sorting.sign : column.number ? -1 : 1;
      sortings.set(place, { head: column.head, sign });
      showTable(place, caption, wanted, records);
      container.querySelectorAll("thead button")[columns.indexOf(column)].focus();
    };
    return make("th", { scope: "col", "aria-sort": direction, class: column.number ? "number" : null }, make("button", { type: "button", onclick: sort }, column.head));
  });
  const body = (by ? ordered(records, by, sorting.sign) : records).map((record) => {
    const cells = columns.map((column, index) => {
      const classes = [column.number ? "number" : null, column.wide ? "wide" : null, column.tone?.(record)].filter(Boolean).join(" ") || null;
      const properties = index === 0 ? { scope: "row", class: classes } : { class: classes };
      return make(index === 0 ? "th" : "td", properties, column.cell ? column.cell(record) : column.value(record));
    });
    return make("tr", {}, ...cells);
  });
  const table = make(
    "table",
    {},
    make("caption", {}, make("span", {}, caption)),
    make("thead", {}, make("tr", {}, ...heads)),
    make("tbody", {}, ...body),
  );
  container.replaceChildren(make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption }, table));
}

const changeOf = new Map(DATA.changes.map((each) => [each.row, each]));
DATA.rows.forEach((row, index) => {
  row.index = index;
  row.change = changeOf.get(index) ?? null;
});
const changeText = ({ ratio, low, high }) => `${signed(ratio - 1)} [${signed(low - 1)}, ${signed(high - 1)}]`;
const changeSummary = (change) => (["slower", "faster"].includes(change.verdict) ? changeText(change) : `${signed(change.ratio - 1)}, within the noise`);
const changeColumn = {
  ...numeric("time since the last run", (row) => row.change?.ratio ?? null, number, (row) => (row.change ? changeSummary(row.change) : "")),
  tone: (row) => ({ slower: "bad", faster: "good" })[row.change?.verdict] ?? null,
};

/** Why a benchmark needs attention, the most urgent reason first; null if it does not. */
function reasonOf(row) {
  if (isFailure(row)) return { order: 0, text: row.note };
  if (row.change?.verdict === "slower") return { order: 1, text: `slower than at ${DATA.files[row.change.base_file].label}` };
  if (row.verdict === "MISSED") return { order: 2, text: "target missed" };
  if (!row.bar && row.ratios[row.accepted_peer]?.low > 1) return { order: 3, text: `slower than ${row.accepted_peer}` };
  return null;
}

function showAttention(rows) {
  const found = rows
    .filter((row) => row.current && reasonOf(row))
    .sort((a, b) => reasonOf(a).order - reasonOf(b).order || (b.excess ?? 0) - (a.excess ?? 0));
  byId("attention").hidden = !found.length;
  showTable("attention-table", `${found.length} benchmarks failed, became slower, miss their target, or are slower than the baseline`, [
    benchmarkColumn((row) => row),
    { ...text("reason", (row) => reasonOf(row).text), tone: (row) => (reasonOf(row).order < 3 ? "bad" : "warning"), wide: true },
    numeric("time, us", medianOf(OURS), microseconds),
    ...visiblePeers().map(speedColumn),
    text("target", targetText),
    changeColumn,
    { ...text("history", () => ""), cell: (row) => (row.history.filter(known).length > 1 ? sparkline(row.history.map((each) => inverse(each?.median)), "bad") : "") },
  ], found);
}

function showChanges(rows) {
  const visible = new Set(rows);
  const all = DATA.changes.filter((each) => visible.has(DATA.rows[each.row]));
  const records = all.filter((each) => each.verdict === "slower" || each.verdict === "faster");
  const row = (each) => DATA.rows[each.row];
  byId("changes").hidden = !records.length;
  showTable("changes-table", `${records.length} of ${all.length} benchmarks changed by more than ${percent(DATA.threshold)} and beyond the noise`, [
    benchmarkColumn(row),
    { ...text("result", (each) => each.verdict), tone: (each) => (each.verdict === "slower" ? "bad" : "good") },
    numeric("change of the time", (each) => each.ratio, number, changeText),
    numeric("before, us", (each) => each.base_seconds, microseconds),
    numeric("now, us", (each) => each.new_seconds, microseconds),
    text("since", (each) => DATA.files[each.base_file].label),
  ], records);
}

function showRows(rows, peers) {
  showTable("rows-table", `${rows.length} benchmarks: medians, speed-ups with confidence intervals, rates`, [
    benchmarkColumn((row) => row, (row) => row.name),
    { ...text("suite", (row) => row.suite), varied: true },
    text("operator", (row) => (row.operator === row.name ? "" : row.operator)),
    text("size", (row) => row.size),
    text("dtype", (row) => row.dtype),
    { ...text("device", (row) => row.device), varied: true },
    { ...text("direction", (row) => row.direction), varied: true },
    numeric("triten, us", medianOf(OURS), microseconds),
    ...peers.map((peer) => numeric(`${peer}, us`, medianOf(peer), microseconds)),
    ...peers.map(speedColumn),
    numeric("GB/s", (row) => row.bytes_per_second, giga),
    numeric("GFLOP/s", (row) => row.flops_per_second, giga),
    text("limited by", (row) => ({ copy: "memory", matrix: "compute", call: "call" })[row.limit] ?? ""),
    numeric("of the limit", (row) => row.of_limit, percent),
    text("target", targetText),
    verdictColumn,
    changeColumn,
    { ...text("measured at", (row) => DATA.files[row.file].label), varied: true },
    text("renamed from", (row) => row.renamed_from.join(", ")),
  ], rows);
}

/** The runs, the newest first. The caption has what is the same in all of them. */
function showFiles() {
  const machine = (name) => (file) => String(file.machine[name] ?? "");
  const setting = (name) => (file) => String(file.settings[name] ?? "");
  const libraries = (file) => Object.entries(file.versions).filter(([name]) => name !== OURS);
  const places = [
    text("GPU", machine("gpu")),
    text("processor", machine("processor")),
    text("device", setting("device")),
    text("threads", setting("threads")),
    text("cores", (file) => (file.settings.cores ?? []).join(", ")),
    text("quick", (file) => (file.settings.quick ? "yes" : "no")),
    text("host", machine("host")),
    text("system", machine("system")),
    text("Python", machine("python")),
    text("versions", (file) => libraries(file).map((pair) => pair.join(" ")).join(", ")),
  ];
  const isCommon = (column) => new Set(DATA.files.map(column.value)).size < 2;
  const common = places.filter((column) => isCommon(column) && column.value(DATA.files[0])).map((column) => `${column.head} ${column.value(DATA.files[0])}`);
  byId("files-note").textContent = `${common.join("; ")}.`;
  showTable("files-table", "Runs, the newest commit first", [
    text("commit", (file) => file.label),
    text("committed", (file) => (file.time ?? "").slice(0, 16).replace("T", " ")),
    text("measured", (file) => file.started.slice(0, 16).replace("T", " ")),
    text("state", (file) => `${file.complete ? "complete" : "incomplete"}${file.rehearsal ? ", rehearsal" : ""}`),
    ...places.filter((column) => !isCommon(column)),
    text("file", (file) => file.path),
  ], [...DATA.files].reverse());
}
