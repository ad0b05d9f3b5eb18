// Small line charts, drawn by hand: the grid browser draws a dozen at once at the pace of clicks.

const CHART = { width: 300, height: 170, right: 8, top: 8, bottom: 22 };

function niceTicks(low, high, count) {
  if (!(high > low)) return [low];
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((m) => m * power >= 0.85 * raw) * power;
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) ticks.push(Number(tick.toPrecision(12)));
  return ticks;
}

/** The range of several lists of numbers, arrays or typed ones, a little wider by `pad`. */
function span(lists, pad) {
  let low = Infinity, high = -Infinity;
  for (const values of lists) {
    for (const value of values) {
      if (!Number.isFinite(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low === Infinity) return [0, 1];
  if (low === high) return [low - (Math.abs(low) * 0.05 || 1), high + (Math.abs(high) * 0.05 || 1)];
  return [low - pad * (high - low), high + pad * (high - low)];
}

/** A chart of curves [{x, y, error, side, colour, name}], with a cursor that reads the values under it. */
function lineChart(title, curves, { across = "epoch", dots = false } = {}) {
  const { width, height, right, top, bottom } = CHART;
  const [x0, x1] = span(curves.map((c) => c.x), 0);
  const [y0, y1] = span(curves.map((c) => c.y), 0.04);
  const yTicks = niceTicks(y0, y1, 4), widest = Math.max(...yTicks.map((tick) => spoken(tick).length));
  const left = Math.max(36, 10 + 6 * widest);
  const measured = [...new Set(curves.flatMap((c) => [...c.x]))];
  const px = (x) => left + ((x - x0) / (x1 - x0)) * (width - left - right);
  const py = (y) => height - bottom - ((y - y0) / (y1 - y0)) * (height - top - bottom);
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}: ${curves.length} curves` });
  for (const tick of yTicks) {
    svg.append(make("line", { x1: left, x2: width - right, y1: py(tick), y2: py(tick), class: "frame" }));
    svg.append(make("text", { x: left - 5, y: py(tick) + 3, "text-anchor": "end" }, spoken(tick)));
  }
  for (const tick of measured.length === 1 ? measured : niceTicks(x0, x1, 5)) svg.append(make("text", { x: px(tick), y: height - 8, "text-anchor": "middle" }, spoken(tick)));
  for (const curve of curves) {
    let path = "", pen = "M";
    for (let i = 0; i < curve.x.length; i++) {
      if (!Number.isFinite(curve.y[i])) { pen = "M"; continue; }
      path += `${pen}${px(curve.x[i]).toFixed(1)} ${py(curve.y[i]).toFixed(1)}`;
      pen = "L";
    }
    svg.append(make("path", { d: path, fill: "none", stroke: curve.colour, "stroke-width": curves.length > 12 ? 1 : 1.6, "stroke-linejoin": "round" }));
    if (dots || curve.x.length === 1) {
      for (let i = 0; i < curve.x.length; i++) {
        if (Number.isFinite(curve.y[i])) svg.append(make("circle", { cx: px(curve.x[i]), cy: py(curve.y[i]), r: 2, fill: curve.colour }));
      }
    }
  }
  const cursor = make("line", { y1: top, y2: height - bottom, class: "cursor", visibility: "hidden" });
  svg.append(cursor);
  const reading = make("output");
  const readAt = (clientX) => {
    const box = svg.getBoundingClientRect();
    const x = x0 + (((clientX - box.left) / box.width) * width - left) / (width - left - right) * (x1 - x0);
    const near = measured.reduce((best, each) => (Math.abs(each - x) < Math.abs(best - x) ? each : best), measured[0]);
    cursor.setAttribute("x1", px(near));
    cursor.setAttribute("x2", px(near));
    cursor.setAttribute("visibility", "visible");
    reading.textContent = `${across} ${spoken(near)}: ${valuesAt(curves, near)}`;
  };
  svg.addEventListener("pointermove", (event) => readAt(event.clientX));
  svg.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); reading.textContent = last; });
  const end = Math.max(...curves.map((c) => c.x[c.x.length - 1]));
  const last = `${across} ${spoken(end)}: ${valuesAt(curves, end)}`;
  reading.textContent = last;
  return make("div", { class: "chart" }, make("h4", {}, title), svg, reading);
}

/** What stands before a bound that nobody knows the error of, such as an accuracy under attack. */
const signOf = (error, side) => (side && !(error >= 0) ? { above: "≥ ", below: "≤ " }[side] : "");

/** A value and how far the truth may be from it: to either side, or only above or below a bound. */
function withError(value, error, side) {
  if (!(error > 0)) return signOf(error, side) + spoken(value);
  const rounding = error <= 1e-5 * Math.abs(value); // which goes either way
  if (!side || rounding) return `${spoken(value)} ± ${spoken(error)}`;
  return side === "above" ? `${spoken(value)} +${spoken(error)} −0` : `${spoken(value)} +0 −${spoken(error)}`;
}

function valuesAt(curves, x) {
  const found = curves.map((c) => [c, c.x.indexOf(x)]).filter(([, i]) => i >= 0);
  if (found.length === 1) {
    const [curve, i] = found[0];
    return withError(curve.y[i], curve.error?.[i], curve.side);
  }
  const values = found.map(([c, i]) => c.y[i]).filter(Number.isFinite);
  if (!values.length) return "–";
  const sign = signOf(found[0][0].error?.[found[0][1]], found[0][0].side); // of one measure and key, so of all
  if (found.length <= 3) return found.map(([c, i]) => `${sign}${spoken(c.y[i])} (${c.name})`).join(", ");
  const [low, high] = [Math.min(...values), Math.max(...values)].map((value) => sign + spoken(value));
  return low === high ? `${low} for all ${values.length} networks` : `${low} … ${high} over ${values.length} networks`;
}
