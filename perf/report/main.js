// Puts the page together, and again whenever a filter or the theme changes.

function showAll() {
  const [rows, peers] = [visibleRows(), visiblePeers()];
  byId("shown").textContent = `${rows.length} of ${DATA.rows.length} benchmarks`;
  drawHeadline();
  showSuites();
  showAttention(rows);
  showChanges(rows);
  showHistory(rows);
  drawSpeed(rows, peers);
  showRows(rows, peers);
  drawRoofline(rows);
  drawOverhead(rows, peers);
}

let waiting = false;

/** Show once for all changes since the last frame. */
function showSoon() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    showAll();
  });
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function prepareTheme() {
  const button = byId("theme");
  const tell = () => button.setAttribute("aria-pressed", String(isDark()));
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    tell();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
  tell();
}

prepareTheme();
prepareFilters(showSoon);
const foldFilters = () => byId("filter-box").toggleAttribute("open", !narrow.matches);
foldFilters();
narrow.addEventListener("change", () => {
  foldFilters();
  showSoon();
});
byId("history-benchmark").addEventListener("change", (event) => {
  event.stopPropagation();
  drawBenchmark(DATA.rows[Number(event.target.value)]);
});
prepareProfiles();
if (DATA.files.length) {
  showAbout();
  showFiles();
  showAll();
} else {
  byId("about").textContent = PROFILES.map(({ name }) => name).join(", ");
  for (const id of ["summary", "first", "filter-box", "attention", "changes", "history", "speed", "roofline", "overhead", "files"]) byId(id).hidden = true;
}
