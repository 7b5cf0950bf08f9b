// A small kit for charts as SVG: scales, axes, labels that are never cut, and a cursor for pointer and keyboard.

const FONT = 12;
const LINE_HEIGHT = 15;
const SYMBOLS = ["circle", "diamond", "square", "triangle"];
const narrow = matchMedia("(max-width: 45rem)");

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) if (known(value)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const measuring = document.createElement("canvas").getContext("2d");
function textWidth(text, weight = 400) {
  measuring.font = `${weight} ${FONT}px system-ui, sans-serif`;
  return measuring.measureText(text).width;
}

/** A text in as many lines as its width takes: at spaces, or inside a word that is too long. */
function wrapped(text, most) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (textWidth(longer) <= most) lines[lines.length - 1] = longer;
    else {
      let rest = word;
      if (lines.at(-1)) lines.push("");
      while (textWidth(rest) > most && rest.length > 1) {
        let end = rest.length - 1;
        while (end > 1 && textWidth(rest.slice(0, end)) > most) end -= 1;
        lines[lines.length - 1] = rest.slice(0, end);
        rest = rest.slice(end);
        lines.push("");
      }
      lines[lines.length - 1] = rest;
    }
  }
  return lines;
}

/** A logarithmic scale from values to pixels, with some room around the values. */
function logScale(values, from, to, room = 0.06) {
  let [low, high] = [Math.log(Math.min(...values)), Math.log(Math.max(...values))];
  const middle = (low + high) / 2;
  const half = Math.max((high - low) / 2, 0.05) * (1 + room);
  [low, high] = [middle - half, middle + half];
  const scale = (value) => from + ((Math.log(value) - low) / (high - low)) * (to - from);
  return Object.assign(scale, { low: Math.exp(low), high: Math.exp(high), from, to });
}

/** Ticks at 1, 2 and 5 times powers of ten, or fewer where they would touch; finer ones in a range below a decade. */
function ticksOf(scale, room) {
  const { low, high } = scale;
  const between = (each) => each >= low * 0.9999 && each <= high * 1.0001;
  const spaced = (ticks) => ticks.every((tick, at) => at === 0 || Math.abs(scale(tick) - scale(ticks[at - 1])) >= room);
  for (const [digits, step] of [[[1, 2, 5], 1], [[1, 1.5, 2, 3, 5, 7], 1], [[1], 1], [[1], 2], [[1], 3], [[1], 6]]) {
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
      if (power % step === 0) ticks.push(...digits.map((digit) => Number(`${digit}e${power}`)).filter(between));
    }
    if (ticks.length < 3 && digits.length === 3) continue;
    if (ticks.length < 3 && digits.length === 6) {
      const most = Math.min(6, Math.max(2, Math.floor(Math.abs(scale.to - scale.from) / room / 1.3)));
      const rough = (high - low) / most;
      const unit = 10 ** Math.floor(Math.log10(rough));
      const size = [1, 2, 5, 10].map((each) => each * unit).find((each) => each >= rough);
      const even = [];
      for (let at = Math.ceil(low / size); at * size <= high; at += 1) even.push(Number((at * size).toPrecision(6)));
      if (spaced(even) && even.length > ticks.length) return even;
    }
    if (ticks.length && spaced(ticks)) return ticks;
  }
  return [];
}

/** A tick's label: its digits and no more. */
function tickText(value) {
  if (value >= 1e6 || value < 1e-4) {
    const power = Math.floor(Math.log10(value * 1.0001) / 3) * 3;
    const prefix = { 3: "k", 6: "M", 9: "G", 12: "T", 15: "P" }[power];
    return prefix ? `${Number((value / 10 ** power).toPrecision(3))} ${prefix}` : value.toExponential(0);
  }
  return Number(value.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 6 });
}

const label = (x, y, text, attributes = {}) => svg("text", { x, y, ...attributes }, text);
const line = (x1, y1, x2, y2, kind) => svg("line", { x1, y1, x2, y2, class: kind });

/** Vertical grid lines with their ticks on top or below. */
function gridX(root, scale, top, bottom, labelY) {
  for (const tick of ticksOf(scale, 34)) {
    root.append(line(scale(tick), top, scale(tick), bottom, "grid"), label(scale(tick), labelY, tickText(tick), { "text-anchor": "middle", class: "tick" }));
  }
}

/** Horizontal grid lines with their ticks at the left. */
function gridY(root, scale, left, right) {
  for (const tick of ticksOf(scale, 22)) {
    root.append(line(left, scale(tick), right, scale(tick), "grid"), label(left - 6, scale(tick) + 4, tickText(tick), { "text-anchor": "end", class: "tick" }));
  }
}

function symbol(kind, x, y, r, attributes) {
  if (kind === "circle") return svg("circle", { cx: x, cy: y, r, ...attributes });
  const shapes = {
    diamond: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]],
    square: [[-1, -1], [1, -1], [1, 1], [-1, 1]],
    triangle: [[0, -1.2], [1.2, 1], [-1.2, 1]],
  };
  const points = shapes[kind].map(([dx, dy]) => `${(x + dx * r).toFixed(1)},${(y + dy * r).toFixed(1)}`);
  return svg("polygon", { points: points.join(" "), ...attributes });
}

/** Move labels apart that would overlap: the tops of boxes of these heights, each near its center. */
function apart(centers, heights, top, bottom) {
  const order = centers.map((_, index) => index).sort((a, b) => centers[a] - centers[b]);
  const tops = centers.map((center, index) => center - heights[index] / 2);
  let free = top;
  for (const index of order) {
    tops[index] = Math.max(tops[index], free);
    free = tops[index] + heights[index];
  }
  let most = bottom;
  for (const index of order.reverse()) {
    tops[index] = Math.min(tops[index], most - heights[index]);
    most = tops[index];
  }
  return tops;
}

const charts = new Map();
const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const chart = charts.get(target);
    if (chart && target.clientWidth && target.clientWidth !== chart.width) redraw(target);
  }
});

/** The distance of a position from a point; from a box it is 0 inside, and too far outside. */
function distanceTo({ x, y, box }, atX, atY) {
  if (!box) return Math.hypot(x - atX, y - atY);
  return atX >= box[0] && atX <= box[2] && atY >= box[1] && atY < box[3] ? 0 : Infinity;
}

/**
 * Show a chart in an element, and again whenever its width changes.
 *
 * `draw(width)` returns `{ root, height, points }`: an SVG group and its points, each with x, y, text, and
 * optionally `group` (the class name of what is emphasized), `open` (called on a click or Enter), and `box` (left, top,
 * right, bottom of a block, which takes the place of the point).
 */
function showChart(target, name, draw) {
  const tip = make("div", { class: "tip", hidden: "" });
  const said = make("output", { class: "hidden", "aria-live": "polite" });
  const picture = make("div", { class: "picture", tabindex: "0", role: "group", "aria-label": `${name}. Arrow keys read its points.` });
  target.classList.add("chart");
  target.replaceChildren(picture, tip, said);
  charts.set(target, { draw, picture, tip, said, at: -1, points: [] });
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const found = charts.get(target).points.map((each, index) => [distanceTo(each, x, y), index]);
    const [distance, index] = found.reduce((a, b) => (b[0] < a[0] ? b : a), [Infinity, -1]);
    point(target, distance < 28 ? index : -1);
  });
  picture.addEventListener("pointerleave", () => point(target, -1));
  picture.addEventListener("blur", () => point(target, -1));
  const open = () => {
    const chart = charts.get(target);
    chart.points[chart.at]?.open?.();
  };
  picture.addEventListener("click", open);
  picture.addEventListener("keydown", (event) => {
    const chart = charts.get(target);
    const most = chart.points.length - 1;
    const steps = { ArrowRight: chart.at + 1, ArrowDown: chart.at + 1, ArrowLeft: chart.at - 1, ArrowUp: chart.at - 1, Home: 0, End: most };
    if (event.key === "Enter") open();
    if (event.key === "Escape") point(target, -1);
    if (!(event.key in steps) || most < 0) return;
    event.preventDefault();
    point(target, Math.min(Math.max(steps[event.key], 0), most));
    said.textContent = chart.points[chart.at].text;
  });
  redraw(target);
  resized.observe(target);
}

function redraw(target) {
  const chart = charts.get(target);
  chart.width = target.clientWidth;
  if (!chart.width) return;
  const { root, height, points } = chart.draw(chart.width);
  chart.points = points;
  chart.at = -1;
  chart.tip.hidden = true;
  chart.cursor = svg("rect", { class: "cursor", visibility: "hidden" });
  chart.picture.replaceChildren(svg("svg", { width: chart.width, height, "aria-hidden": "true" }, root, chart.cursor));
}

/** Show the tip of a point and emphasize its group; -1: of none. */
function point(target, index) {
  const chart = charts.get(target);
  if (chart.at === index) return;
  chart.at = index;
  const found = chart.points[index];
  for (const each of chart.picture.querySelectorAll("[data-group]")) {
    each.classList.toggle("faded", Boolean(found?.group) && each.dataset.group !== found.group);
  }
  chart.cursor.setAttribute("visibility", found ? "visible" : "hidden");
  chart.tip.hidden = !found;
  chart.picture.classList.toggle("opens", Boolean(found?.open));
  if (!found) return;
  const [left, top, right, bottom] = found.box ?? [found.x - 8, found.y - 8, found.x + 8, found.y + 8];
  const frame = { x: left, y: top, width: right - left, height: bottom - top, rx: found.box ? 2 : 8 };
  for (const [name, value] of Object.entries(frame)) chart.cursor.setAttribute(name, value);
  chart.tip.textContent = found.text;
  const tipLeft = Math.min(Math.max(found.x - chart.tip.offsetWidth / 2, 0), chart.width - chart.tip.offsetWidth);
  const above = found.y - chart.tip.offsetHeight - 12;
  chart.tip.style.left = `${tipLeft}px`;
  chart.tip.style.top = `${above < 0 ? found.y + 14 : above}px`;
}
