// Curves on a canvas: one line a trial, points appended as they arrive, the nearest line named on demand.

const VIRIDIS = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30"];
const KINDS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"];

// A few distinct values of a grid's axis, each with its colour: shades where they are ordered, hues where not.
export function colours(values, dark) {
  const distinct = [...new Map(values.map((value) => [JSON.stringify(value), value])).values()];
  const ordered = distinct.every((value) => typeof value === "number");
  if (ordered) distinct.sort((a, b) => a - b);
  const shade = (i) => {
    const place = distinct.length > 1 ? i / (distinct.length - 1) : 0;
    // The end that is lost on the ground is left out: the light one on paper, the dark one at night.
    const at = (dark ? 0.3 + 0.7 * place : 0.85 * place) * (VIRIDIS.length - 1);
    return mix(VIRIDIS[Math.floor(at)], VIRIDIS[Math.min(Math.ceil(at), VIRIDIS.length - 1)], at % 1);
  };
  return new Map(distinct.map((value, i) =>
    [JSON.stringify(value), { value, colour: ordered ? shade(i) : KINDS[i % KINDS.length] }]));
}

function mix(from, to, share) {
  const part = (text, i) => parseInt(text.slice(1 + 2 * i, 3 + 2 * i), 16);
  return `rgb(${[0, 1, 2].map((i) => Math.round(part(from, i) * (1 - share) + part(to, i) * share)).join(" ")})`;
}

export function short(number) {
  if (number === null || !Number.isFinite(number)) return "–";
  if (number === 0) return "0";
  const size = Math.abs(number);
  if (size >= 1e5 || size < 1e-3) return number.toExponential(2).replace(/\.?0+e/, "e");
  return String(Number(number.toPrecision(4)));
}

export class Chart {
  constructor(canvas, readout) {
    this.canvas = canvas;
    this.readout = readout;
    this.curves = new Map(); // trial → { whole, step: [], value: [], colour, name, growing }
    this.logX = this.logY = false;
    this.sign = ""; // before every value, where they are bounds
    this.chosen = null;
    this.asked = false;
    new ResizeObserver(() => this.redraw()).observe(canvas);
    canvas.addEventListener("pointermove", (event) => this.choose(this.nearest(event.offsetX, event.offsetY)));
    canvas.addEventListener("pointerleave", () => this.choose(null));
    canvas.addEventListener("blur", () => this.choose(null));
    canvas.addEventListener("keydown", (event) => this.walk(event));
  }

  clear() { this.curves.clear(); this.chosen = null; this.redraw(); }

  // New points of one trial; `anew` replaces what was there.
  extend(trial, { anew, whole, step, value }) {
    const known = this.curves.get(trial);
    if (anew || !known) {
      this.curves.set(trial, { ...known, whole, step, value });
    } else {
      for (let i = 0; i < step.length; i++) { known.step.push(step[i]); known.value.push(value[i]); }
    }
    this.redraw();
  }

  redraw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.draw(); });
  }

  choose(trial) {
    if (trial === this.chosen) return;
    this.chosen = trial;
    this.tell();
    this.redraw();
  }

  tell() {
    const curve = this.chosen === null ? null : this.curves.get(this.chosen);
    const last = curve ? curve.step.length - 1 : -1;
    this.readout.textContent = last < 0 ? "" :
      `${this.chosen}  ${curve.name}: ${this.sign}${short(curve.value[last])} at step ${curve.step[last].toLocaleString()}`;
  }

  walk(event) {
    const move = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") this.choose(null);
    const trials = [...this.curves.keys()];
    if (!move || !trials.length) return;
    event.preventDefault();
    const place = this.chosen === null ? (move > 0 ? -1 : 0) : trials.indexOf(this.chosen);
    this.choose(trials[(place + move + trials.length) % trials.length]);
  }

  range(of, logarithmic) {
    let low = Infinity, high = -Infinity;
    for (const curve of this.curves.values()) {
      for (const number of curve[of]) {
        if (number === null || (logarithmic && number <= 0)) continue;
        if (number < low) low = number;
        if (number > high) high = number;
      }
    }
    if (low > high) return null;
    if (logarithmic) return low === high ? [low / 2, 2 * high] : [low, high];
    const room = low === high ? 0.1 * Math.abs(low) || 1 : of === "value" ? 0.04 * (high - low) : 0;
    return [low - room, high + room];
  }

  draw() {
    const { canvas } = this, ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !height) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--muted"), rule = style.getPropertyValue("--rule");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    const xs = this.range("step", this.logX), ys = this.range("value", this.logY);
    if (!xs || !ys) {
      pen.fillStyle = ink;
      pen.textAlign = "center";
      pen.fillText(this.curves.size ? "No value that could be drawn." : "Nothing measured yet.", width / 2, height / 2);
      return;
    }
    const box = { left: 58, right: width - 12, top: 10, bottom: height - 34 };
    const x = scale(xs, box.left, box.right, this.logX), y = scale(ys, box.bottom, box.top, this.logY);
    this.x = x; this.y = y;
    pen.strokeStyle = rule; pen.fillStyle = ink; pen.lineWidth = 1;
    pen.textAlign = "right"; pen.textBaseline = "middle";
    for (const tick of ticks(ys, this.logY, 5)) {
      line(pen, box.left, y(tick), box.right, y(tick));
      pen.fillText(short(tick), box.left - 8, y(tick));
    }
    pen.textBaseline = "top";
    for (const tick of ticks(xs, this.logX, width < 500 ? 4 : 7)) {
      pen.textAlign = x(tick) > box.right - 20 ? "right" : "center";
      pen.fillText(tick.toLocaleString(), x(tick), box.bottom + 6);
    }
    pen.textAlign = "right";
    pen.fillText("step", box.right, box.bottom + 20);
    const many = this.curves.size;
    for (const [trial, curve] of this.curves) {
      if (trial !== this.chosen) this.stroke(pen, curve, many > 200 ? 0.35 : many > 40 ? 0.6 : 0.85, 1.3);
    }
    const chosen = this.chosen === null ? null : this.curves.get(this.chosen);
    if (chosen) this.stroke(pen, chosen, 1, 3);
  }

  stroke(pen, curve, alpha, thickness) {
    const { x, y } = this;
    pen.globalAlpha = alpha;
    pen.strokeStyle = pen.fillStyle = curve.colour || KINDS[0];
    pen.lineWidth = thickness;
    pen.lineJoin = "round";
    pen.beginPath();
    let down = false, end = null;
    for (let i = 0; i < curve.step.length; i++) {
      const value = curve.value[i], step = curve.step[i];
      // A number that cannot be drawn leaves a gap: no line is made up across it.
      if (value === null || (this.logY && value <= 0) || (this.logX && step <= 0)) { down = false; continue; }
      end = [x(step), y(value)];
      if (down) pen.lineTo(...end); else pen.moveTo(...end);
      down = true;
    }
    pen.stroke();
    if (end && (curve.growing || curve.step.length === 1)) {
      pen.globalAlpha = 1;
      pen.beginPath();
      pen.arc(end[0], end[1], 3, 0, 2 * Math.PI);
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  nearest(left, top) {
    if (!this.x) return null;
    let best = null, closest = 24 ** 2;
    for (const [trial, curve] of this.curves) {
      for (let i = 0; i < curve.step.length; i++) {
        if (curve.value[i] === null) continue;
        const distance = (this.x(curve.step[i]) - left) ** 2 + (this.y(curve.value[i]) - top) ** 2;
        if (distance < closest) { closest = distance; best = trial; }
      }
    }
    return best;
  }
}

function line(pen, x0, y0, x1, y1) { pen.beginPath(); pen.moveTo(x0, y0); pen.lineTo(x1, y1); pen.stroke(); }

function scale([low, high], from, to, logarithmic) {
  const f = logarithmic ? Math.log10 : (number) => number;
  const start = f(low), span = f(high) - f(low) || 1;
  return (number) => from + (to - from) * (f(number) - start) / span;
}

function ticks([low, high], logarithmic, count) {
  const found = [];
  if (logarithmic && high / low >= 10) {
    const first = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high));
    const stride = Math.max(1, Math.ceil((last - first + 1) / (count + 1)));
    for (let power = first; power <= last; power += stride) found.push(10 ** power);
    return found;
  }
  const rough = (high - low) / count, size = 10 ** Math.floor(Math.log10(rough));
  const stride = size * [1, 2, 5, 10].find((step) => size * step >= rough);
  for (let i = Math.ceil(low / stride); i * stride <= high; i++) found.push(Number((i * stride).toPrecision(12)));
  return found;
}
