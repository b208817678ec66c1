// Plots of a series, redrawn at every view.
import { h, svg, say } from "./dom.js";
import { clock, day, local, moment } from "./format.js";

const HEIGHT = 190;
const DAY_MS = 86_400_000;
const EDGE = { left: 46, right: 10, top: 10, bottom: 22 };

// `lines`: [{ key, label, kind }], drawn as stacked bars or as lines.
export function chart({ title, lines, bars, format, idle }) {
  const plot = svg("svg", { class: "plot", role: "img", height: HEIGHT });
  const tip = h("div", { class: "tip", hidden: true });
  const note = h("p", { class: "note" });
  const legend = h(
    "ul",
    { class: "legend" },
    lines.map(({ label, kind }) => h("li", {}, h("span", { class: `swatch ${kind}` }), label)),
  );
  const frame = h("div", { class: "plot-frame" }, plot, tip);
  const head = h("div", { class: "card-head" }, h("h2", { text: title }), legend);
  const element = h("section", { class: "card" }, head, frame, note);
  let series = null;

  function draw() {
    if (!series) return;
    const width = Math.max(240, frame.clientWidth);
    plot.setAttribute("width", width);
    plot.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const most = roundUp(peak(series, lines, bars));
    const at = scale(width, steps(series, lines), most);
    plot.replaceChildren(...grid(series, steps(series, lines), at, most, format, width), ...(bars ? drawBars : drawLines)(series, lines, at));
    plot.setAttribute("aria-label", summary(title, series, lines, format));
    const begins = series.since_ms > series.start_ms ? `Counted since ${local(series.since_ms)}. ` : "";
    const quiet = lines.every(({ key }) => series[key].every((value) => !value));
    say(note, begins + (series.estimated ? "Busy: estimated from a sample of the events. " : "") + (quiet ? idle : ""));
  }

  frame.addEventListener("pointermove", (event) => {
    if (!series) return;
    const box = plot.getBoundingClientRect();
    const inner = box.width - EDGE.left - EDGE.right;
    const count = steps(series, lines);
    const index = Math.floor(((event.clientX - box.left - EDGE.left) / inner) * count);
    if (index < 0 || index >= count) {
      tip.hidden = true;
      return;
    }
    const values = lines.map(({ key, label, kind }) => {
      const value = series[key][index];
      const text = `${label}: ${value === null ? "none" : format(value)}`;
      return h("div", {}, h("span", { class: `swatch ${kind}` }), text);
    });
    const at = series.start_ms + index * series.step_ms;
    const utc = h("div", { class: "muted", text: moment(at).replace(".000", "") });
    tip.replaceChildren(h("strong", { text: local(at) }), utc, ...values);
    tip.hidden = false;
    const x = event.clientX - box.left;
    tip.style.left = `${x > box.width / 2 ? x - tip.offsetWidth - 12 : x + 12}px`;
  });
  frame.addEventListener("pointerleave", () => (tip.hidden = true));
  new ResizeObserver(draw).observe(frame);

  return {
    element,
    update(next) {
      series = next;
      draw();
    },
  };
}

function steps(series, lines) {
  return series[lines[0].key].length;
}

function peak(series, lines, bars) {
  const sums = series[lines[0].key].map((_, index) => {
    const values = lines.map(({ key }) => series[key][index] || 0);
    return bars ? values.reduce((sum, value) => sum + value, 0) : Math.max(...values);
  });
  return Math.max(...sums, 0);
}

function roundUp(value) {
  if (!value) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 10].map((step) => step * unit).find((step) => step >= value);
}

function scale(width, count, most) {
  const inner = width - EDGE.left - EDGE.right;
  const tall = HEIGHT - EDGE.top - EDGE.bottom;
  return {
    x: (index) => EDGE.left + (index / count) * inner,
    y: (value) => EDGE.top + tall * (1 - value / most),
    step: inner / count,
  };
}

function grid(series, count, at, most, format, width) {
  const marks = [];
  for (const share of [0, 0.5, 1]) {
    const y = at.y(most * share);
    marks.push(svg("line", { class: "rule", x1: EDGE.left, x2: width - EDGE.right, y1: y, y2: y }));
    marks.push(text({ x: EDGE.left - 6, y: y + 4, "text-anchor": "end" }, share ? format(most * share) : "0"));
  }
  const every = width < 420 ? count / 3 : count / 5;
  const label = count * series.step_ms > 2 * DAY_MS ? day : clock;
  for (let index = every; index < count - 0.5; index += every) {
    const when = label(series.start_ms + index * series.step_ms);
    marks.push(text({ x: at.x(index), y: HEIGHT - 5, "text-anchor": "middle" }, when));
  }
  return marks;
}

function text(props, content) {
  const element = svg("text", props);
  element.textContent = content;
  return element;
}

function drawBars(series, lines, at) {
  const bars = [];
  series[lines[0].key].forEach((_, index) => {
    let below = 0;
    for (const { key, kind } of lines) {
      const value = series[key][index] || 0;
      if (!value) continue;
      const top = at.y(below + value);
      const height = Math.max(1, at.y(below) - top);
      const x = at.x(index) + at.step * 0.12;
      bars.push(svg("rect", { class: kind, x, y: top, width: at.step * 0.76, height, rx: 1 }));
      below += value;
    }
  });
  return bars;
}

function drawLines(series, lines, at) {
  const drawn = [];
  for (const { key, kind } of lines) {
    let path = "";
    series[key].forEach((value, index) => {
      if (value === null) return;
      const joins = index > 0 && series[key][index - 1] !== null;
      const point = `${at.x(index + 0.5).toFixed(1)} ${at.y(value).toFixed(1)}`;
      path += `${joins ? "L" : "M"}${point}`;
      if (!joins && (series[key][index + 1] ?? null) === null) path += `h0.010`; // alone, it shows as a dot
    });
    drawn.push(svg("path", { class: `line ${kind}`, d: path }));
  }
  return drawn;
}

function summary(title, series, lines, format) {
  const values = lines.map(({ key, label }) => {
    const values = series[key].filter((value) => value !== null);
    return `${label}: now ${format(values.at(-1) || 0)}, at most ${format(Math.max(0, ...values))}`;
  });
  return `${title}. ${values.join(". ")}`;
}
