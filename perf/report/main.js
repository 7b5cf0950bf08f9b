// Puts the page together, and again whenever a filter or the theme changes.

function showAbout() {
  const last = DATA.files.at(-1);
  const said = [
    last.label,
    last.machine.gpu,
    last.machine.processor,
    `threads ${last.settings.threads}`,
    `measured ${last.started.replace("T", " ").replace("+00:00", " UTC")}`,
    last.settings.quick ? "quick" : null,
  ];
  byId("about").textContent = said.filter((part) => part).join(" · ");
  byId("doubts").replaceChildren(...DATA.doubts.map((doubt) => make("li", {}, doubt)));
}

function showAll() {
  const [rows, peers] = [visibleRows(), visiblePeers()];
  byId("shown").textContent = `${rows.length} of ${DATA.rows.length} rows`;
  showHeadline(rows, peers);
  showSuites(rows, peers);
  showWorst(rows);
  showRows(rows, peers);
  drawSpeed(rows, peers);
  drawRoofline(rows);
  drawOverhead(rows, peers);
  drawHistory(rows, peers);
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

function prepareTheme() {
  const button = byId("theme");
  const tell = () => button.setAttribute("aria-pressed", String(isDark()));
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    tell();
    showSoon();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    tell();
    showSoon();
  });
  tell();
}

prepareTheme();
prepareFilters(showSoon);
narrow.addEventListener("change", showSoon);
byId("history-lines").addEventListener("change", showSoon);
showAbout();
showFiles();
showAll();
