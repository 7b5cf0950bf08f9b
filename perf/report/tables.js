// Every table: a caption, column heads that sort, a box of its own to scroll in.

const sortings = new Map();

const text = (head, value) => ({ head, value, sort: value });
const numeric = (head, value, shown = number) => ({ head, value: (row) => shown(value(row)), sort: value, number: true });
const verdict = {
  head: "verdict",
  value: (row) => row.verdict,
  sort: (row) => row.verdict,
  tone: (row) => (row.verdict === "met" ? "good" : /^(MISSED|WRONG|FAILED)/.test(row.verdict) ? "bad" : null),
};

const ratioColumn = (peer) =>
  numeric(`ratio to ${peer}`, (row) => row.ratios[peer] ?? null, ratioText);
const medianOf = (library) => (row) => row.summary[library]?.median ?? null;

function sortable(value) {
  return value !== null && typeof value === "object" ? value.ratio : value;
}

/** Show records in `place`; the first column names the row. */
function showTable(place, caption, columns, records) {
  const container = byId(place);
  const sorting = sortings.get(place);
  let ordered = records;
  const by = columns.find((column) => sorting && column.head === sorting.head);
  if (by) {
    const keyed = records.map((record) => [sortable(by.sort(record)), record]);
    const present = keyed.filter(([key]) => key !== null && key !== undefined && key !== "");
    const absent = keyed.filter(([key]) => key === null || key === undefined || key === "");
    present.sort(([a], [b]) => sorting.sign * (a < b ? -1 : a > b ? 1 : 0));
    ordered = [...present, ...absent].map(([, record]) => record);
  }
  const heads = columns.map((column) => {
    const direction = by === column ? (sorting.sign > 0 ? "ascending" : "descending") : "none";
    const sort = () => {
      const sign = by === column ? -sorting.sign : column.number ? -1 : 1;
      sortings.set(place, { head: column.head, sign });
      showTable(place, caption, columns, records);
      const index = columns.indexOf(column);
      container.querySelectorAll("thead button")[index].focus();
    };
    return make(
      "th",
      { scope: "col", "aria-sort": direction, class: column.number ? "number" : null },
      make("button", { type: "button", onclick: sort }, column.head),
    );
  });
  const body = ordered.map((record) => {
    const cells = columns.map((column, index) => {
      const tone = column.tone?.(record) ?? null;
      const classes = [column.number ? "number" : null, tone].filter(Boolean).join(" ") || null;
      const properties = index === 0 ? { scope: "row", class: classes } : { class: classes };
      return make(index === 0 ? "th" : "td", properties, column.value(record) ?? "");
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
  container.replaceChildren(
    make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": `${caption}, scrolls` }, table),
  );
}

function showHeadline(rows, peers) {
  const barred = rows.filter((row) => ["met", "MISSED", "unsure"].includes(row.verdict));
  const met = barred.filter((row) => row.verdict === "met").length;
  const failed = rows.filter((row) => /^(WRONG|FAILED)/.test(row.note)).length;
  const timed = rows.filter((row) => row.summary[OURS]).length;
  const unsure = barred.filter((row) => row.verdict === "unsure").length;
  const bars = unsure ? `bars met (${unsure} unsure)` : "bars met";
  const entries = [["rows timed", `${timed} of ${rows.length}`], [bars, `${met} of ${barred.length}`]];
  for (const peer of peers) {
    const ratios = meanRatios(rows, peer);
    if (!ratios.length) continue;
    const faster = ratios.filter((ratio) => ratio < 1).length;
    entries.push([`geometric mean to ${peer}`, geometricMean(ratios).toFixed(2)]);
    entries.push([`faster than ${peer}`, `${faster} of ${ratios.length}`]);
  }
  entries.push(["failed or wrong", String(failed)]);
  byId("headline").replaceChildren(
    ...entries.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))),
  );
}

/** The ratios that a geometric mean counts: not those of ever-new shapes. */
function meanRatios(rows, peer) {
  return rows.filter((row) => row.in_means && row.ratios[peer]).map((row) => row.ratios[peer].ratio);
}

function showSuites(rows, peers) {
  const records = [...grouped(rows, (row) => JSON.stringify([row.suite, row.device])).values()].map((members) => {
    const { suite, device } = members[0];
    const whole = DATA.suites.find((each) => each.suite === suite && each.device === device);
    return { suite, device, members, bar: members.length === whole.rows ? whole.bar : null };
  });
  const means = peers.map((peer) =>
    numeric(`mean to ${peer}`, (each) => geometricMean(meanRatios(each.members, peer)), (mean) => mean?.toFixed(2) ?? ""),
  );
  const count = (wanted) => (each) => each.members.filter((row) => row.verdict === wanted).length;
  showTable(
    "suites-table",
    "Suites: geometric means of the ratios. A mean's bar holds for the whole suite only.",
    [
      text("suite", (each) => each.suite),
      text("device", (each) => each.device),
      numeric("rows", (each) => each.members.length, String),
      numeric("met", count("met"), String),
      numeric("missed", count("MISSED"), String),
      ...means,
      text("mean's bar", (each) => (each.bar ? `${each.bar.least.toFixed(2)}, aim ${each.bar.aim.toFixed(2)}` : "")),
      {
        ...text("verdict", (each) => each.bar?.verdict ?? ""),
        tone: (each) => (each.bar ? (each.bar.verdict === "MISSED" ? "bad" : "good") : null),
      },
    ],
    records,
  );
}

function accepted(row) {
  if (!row.bar) return "level";
  return row.bar.peer === null ? `${microseconds(row.bar.most)} us` : number(row.bar.most);
}

function showWorst(rows) {
  const held = rows.filter((row) => row.excess !== null).sort((a, b) => b.excess - a.excess);
  showTable(
    "worst-table",
    "The rows that take the most times of what is accepted",
    [
      text("row", (row) => row.label),
      text("device", (row) => row.device),
      numeric("times accepted", (row) => row.excess),
      numeric("us", medianOf(OURS), microseconds),
      text("held to", (row) => row.accepted_peer ?? "seconds"),
      numeric("ratio", (row) => row.ratios[row.accepted_peer] ?? null, ratioText),
      text("accepted", accepted),
      verdict,
    ],
    held.slice(0, 10),
  );
}

function showRows(rows, peers) {
  const several = DATA.files.length > 1;
  showTable(
    "rows-table",
    `${rows.length} rows: medians, ratios with confidence intervals, rates`,
    [
      text("row", (row) => row.name),
      text("suite", (row) => row.suite),
      text("operator", (row) => row.operator),
      text("size", (row) => row.size),
      text("dtype", (row) => row.dtype),
      text("device", (row) => row.device),
      text("direction", (row) => row.direction),
      numeric("triten us", medianOf(OURS), microseconds),
      ...peers.map((peer) => numeric(`${peer} us`, medianOf(peer), microseconds)),
      ...peers.map(ratioColumn),
      numeric("GB/s", (row) => row.bytes_per_second, giga),
      numeric("GFLOP/s", (row) => row.flops_per_second, giga),
      text("limit", (row) => row.limit ?? ""),
      numeric("of limit", (row) => row.of_limit, percent),
      text("bar", (row) => (row.bar ? accepted(row) : "")),
      verdict,
      ...(several ? [text("from file", (row) => DATA.files[row.file].label)] : []),
    ],
    rows,
  );
}

function showFiles() {
  const machine = (name) => (file) => String(file.machine[name] ?? "");
  const state = (file) => `${file.complete ? "complete" : "incomplete"}${file.rehearsal ? ", rehearsal" : ""}`;
  showTable(
    "files-table",
    "The result files, the oldest commit first",
    [
      text("file", (file) => file.path),
      text("commit", (file) => (file.commit === null ? "" : file.label)),
      text("commit's time", (file) => file.time ?? ""),
      text("measured", (file) => file.started),
      text("state", state),
      text("device", (file) => String(file.settings.device ?? "")),
      text("threads", (file) => String(file.settings.threads ?? "")),
      text("pinned to cores", (file) => (file.settings.cores ?? []).join(", ")),
      text("quick", (file) => (file.settings.quick ? "yes" : "no")),
      text("host", machine("host")),
      text("processor", machine("processor")),
      text("GPU", machine("gpu")),
      text("system", machine("system")),
      text("Python", machine("python")),
      text("versions", (file) => Object.entries(file.versions).map((pair) => pair.join(" ")).join(", ")),
    ],
    DATA.files,
  );
}
