// The grid browser: networks chosen by their place in a grid.

const MOST_CURVES = 60;
const MOST_CHARTS = 24;
const VIRIDIS = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];

/** n colours of viridis, without the end that is lost on the ground. */
function orderedColours(n) {
  const [from, to] = isDark() ? [0.3, 1] : [0.05, 0.8];
  return Array.from({ length: n }, (_, i) => {
    const place = (from + (to - from) * (n === 1 ? 0.4 : i / (n - 1))) * (VIRIDIS.length - 1);
    const low = Math.min(Math.floor(place), VIRIDIS.length - 2), [a, b] = [channels(VIRIDIS[low]), channels(VIRIDIS[low + 1])];
    return `rgb(${a.map((c, k) => Math.round(c + (b[k] - c) * (place - low))).join(" ")})`;
  });
}

/** A grid with its series found by trial: [{name, moments, y, error, side}]. */
function opened(grid) {
  const { names, moments, index, values, errors } = grid.series;
  const places = new Int32Array(bytesOf(index).buffer);
  const y = new Float32Array(bytesOf(values).buffer);
  const e = new Float32Array(bytesOf(errors).buffer);
  const byTrial = grid.trials.map(() => []);
  for (let i = 0, at = 0; i < places.length; i += 3) {
    const [trial, name, when] = places.subarray(i, i + 3), length = moments[when].length;
    byTrial[trial].push({ name: names[name], side: grid.sides[name], moments: moments[when], y: y.subarray(at, at + length), error: e.length ? e.subarray(at, at + length) : null });
    at += length;
  }
  const choices = grid.axes.map((_, k) => [...new Map(grid.trials.map((t) => [JSON.stringify(t.at[k]), t.at[k]])).values()]);
  for (const each of choices) if (each.every((v) => typeof v === "number")) each.sort((a, b) => a - b);
  return { ...grid, byTrial, choices };
}

async function startBrowser() {
  const controls = find("#browser-controls"), view = find("#browser-view");
  const packed = findAll("script[data-grid]");
  if (!packed.length) return view.replaceChildren(make("p", { class: "muted" }, "There is no grid yet."));
  const grids = new Map(); // unpacked when first chosen
  const gridSelect = make("select", { id: "browser-grid" });
  packed.forEach((element, i) => gridSelect.append(make("option", { value: i }, element.dataset.grid)));
  const axes = make("span", { style: "display: contents" });
  const count = make("output", { id: "browser-count", "aria-live": "polite" });
  controls.append(make("label", {}, "Grid", gridSelect), axes, count);
  let g;

  function show() {
    const chosen = findAll("select", axes).map((s) => s.value);
    const matched = g.trials.map((t, i) => i).filter((i) => chosen.every((c, k) => c === "" || JSON.stringify(g.trials[i].at[k]) === c));
    count.textContent = `${matched.length} ${matched.length === 1 ? "network" : "networks"}`;
    const free = chosen.findIndex((c, k) => c === "" && g.choices[k].length > 1);
    view.replaceChildren(...(matched.length === 1 ? oneNetwork(g, matched[0]) : manyNetworks(g, matched, free)));
  }

  async function chooseGrid() {
    const id = packed[Number(gridSelect.value)].id;
    if (!grids.has(id)) grids.set(id, unpacked(id).then(opened));
    g = await grids.get(id);
    axes.replaceChildren(...g.axes.map((axis, k) => {
      const select = make("select", { "data-axis": axis }, make("option", { value: "" }, "all"));
      for (const value of g.choices[k]) select.append(make("option", { value: JSON.stringify(value) }, shownValue(value)));
      // The first network, with its other seeds beside it: one look shows what chance does.
      if (axis !== "seed" || g.choices[k].length > 12) select.value = JSON.stringify(g.choices[k][0]);
      select.addEventListener("change", show);
      return make("label", g.choices[k].length > 1 ? {} : { hidden: "" }, shownAxis(axis), select);
    }));
    show();
  }
  gridSelect.addEventListener("change", chooseGrid);
  await chooseGrid();
  themeListeners.push(show);
}

const isSpectrum = (series) => series.name[0] === "spectrum";

/** Charts of the curves of some networks, one for each measure and key. */
function curveCharts(g, trials, colourOf, nameOf) {
  const charts = new Map();
  for (const trial of trials) {
    for (const series of g.byTrial[trial]) {
      if (isSpectrum(series)) continue;
      const title = series.name[1] ? `${series.name[0]} · ${series.name[1]}` : series.name[0];
      if (!charts.has(title)) charts.set(title, []);
      charts.get(title).push({ moments: series.moments, y: series.y, error: series.error, side: series.side, colour: colourOf(trial), name: nameOf(trial) });
    }
  }
  return [...charts].map(([title, curves]) => {
    // One axis for all: epochs, where no network was measured twice in one and some came beyond the first.
    const epochs = curves.map((c) => c.moments.map((m) => m[1]));
    const byEpoch = epochs.every((each) => new Set(each).size === each.length) && epochs.some((each) => each.at(-1) > 0);
    const placed = curves.map((c, i) => ({ ...c, x: byEpoch ? epochs[i] : c.moments.map((m) => m[0]) }));
    return lineChart(title, placed, { across: byEpoch ? "epoch" : "step" });
  });
}

/** Charts beside each other; of very many (a coefficient for each neuron and feature) the others wait for a click. */
function chartGrid(charts) {
  const grid = make("div", { class: "charts" }, ...charts.slice(0, MOST_CHARTS)), others = charts.slice(MOST_CHARTS);
  if (!others.length) return [grid];
  const more = make("button", { type: "button" }, `Show the other ${others.length} charts`);
  more.addEventListener("click", () => { grid.append(...others); more.remove(); });
  return [grid, make("p", {}, more)];
}

/** Singular values of each weight matrix before and after training. */
function spectrumCharts(g, trial) {
  const matrices = new Map();
  for (const series of g.byTrial[trial].filter(isSpectrum)) {
    const cut = series.name[1].lastIndexOf(":"), matrix = series.name[1].slice(0, cut);
    if (!matrices.has(matrix)) matrices.set(matrix, []);
    matrices.get(matrix)[Number(series.name[1].slice(cut + 1))] = series;
  }
  const [before, after] = [pageColour("muted"), pageColour("accent")];
  return [...matrices].map(([matrix, rows]) => {
    const x = rows.map((_, i) => i + 1), last = rows[0].y.length - 1;
    const curves = [{ x, y: rows.map((r) => r.y[0]), colour: last ? before : after, name: last ? "before" : "after" }];
    if (last) curves.push({ x, y: rows.map((r) => r.y[r.y.length - 1]), colour: after, name: "after" });
    return lineChart(`singular values of ${matrix}${last ? ", before and after training" : ""}`, curves, { across: "number", dots: true });
  });
}

const shownAxis = (axis) => axis.replaceAll("_", " ");

/** Where a network is among others, by the axes on which they differ. */
function placeOf(g, trial, others) {
  const told = g.axes.map((_, k) => k).filter((k) => new Set(others.map((i) => JSON.stringify(g.trials[i].at[k]))).size > 1);
  return told.map((k) => `${shownAxis(g.axes[k])} ${shownValue(g.trials[trial].at[k])}`).join(", ");
}

function oneNetwork(g, trial) {
  const about = g.trials[trial], content = [];
  const ended = about.status === "finished" ? `Finished after ${about.step} steps.` : about.status === "diverged" ? `Diverged at step ${about.step}: ${about.reason}` : about.status === "damaged" ? "Its files are damaged: `undertow resume` computes it again." : "Not computed yet.";
  content.push(make("p", { class: "key" }, make("span", {}, make("b", {}, about.status), ` · ${ended}`), make("code", {}, about.id)));
  const charts = [...curveCharts(g, [trial], () => pageColour("accent"), () => ""), ...spectrumCharts(g, trial)];
  if (charts.length) content.push(...chartGrid(charts));
  const below = make("div", { class: "about" });
  if (g.pairs[trial]) below.append(examplePairs(g.pairs[trial]));
  if (about.own) below.append(configTable(g, about));
  content.push(below);
  return content;
}

function manyNetworks(g, matched, free) {
  const withRecords = matched.filter((i) => g.byTrial[i].length);
  if (!withRecords.length) return [make("p", { class: "muted" }, matched.length ? "None of these networks has records yet." : "No network has this place in the grid.")];
  const shown = withRecords.slice(0, MOST_CURVES);
  const values = g.choices[free] ?? [], colours = orderedColours(values.length);
  const place = new Map(values.map((v, i) => [JSON.stringify(v), i]));
  const colourOf = (i) => colours[place.get(JSON.stringify(g.trials[i].at[free]))] ?? pageColour("accent");
  const key = make("p", { class: "key" }, make("span", { class: "muted" }, `${shownAxis(g.axes[free] ?? "")}:`));
  values.forEach((value, i) => key.append(make("span", {}, make("i", { style: `background: ${colours[i]}` }), shownValue(value))));
  const content = [key];
  if (shown.length < withRecords.length) content.push(make("p", { class: "muted" }, `The first ${MOST_CURVES} of ${withRecords.length} networks are drawn; narrow the choice to see the others.`));
  const ends = new Map();
  for (const i of matched) ends.set(g.trials[i].status, (ends.get(g.trials[i].status) ?? 0) + 1);
  content.push(make("p", { class: "key muted" }, [...ends].map(([end, n]) => `${n} ${end}`).join(", ")));
  content.push(...chartGrid(curveCharts(g, shown, colourOf, (i) => placeOf(g, i, shown))));
  return content;
}

function configTable(g, about) {
  const all = { ...g.config, ...about.own }, table = make("table");
  for (const key of Object.keys(all).sort()) {
    const value = all[key], text = value !== null && typeof value === "object" ? JSON.stringify(value) : String(value ?? "–");
    table.append(make("tr", {}, make("th", { scope: "row" }, key), make("td", {}, key in about.own ? make("b", {}, text) : text)));
  }
  return make("details", { class: "chart" }, make("summary", {}, "Configuration"), table);
}

function examplePairs(pairs) {
  const size = pairs.side * pairs.side, inputs = size * pairs.channels;
  const pixels = bytesOf(pairs.pixels), change = new Int8Array(bytesOf(pairs.change).buffer);
  const row = make("div", { class: "pairs" });
  pairs.label.forEach((label, n) => {
    const clean = (k) => pixels[n * inputs + k], moved = (k) => change[n * inputs + k] / 127;
    const pictures = [clean, (k) => clean(k) + 255 * pairs.stretch[n] * moved(k), (k) => 127.5 + 127.5 * moved(k)];
    const found = pairs.distance[n];
    const words = found === null ? "no example found" : found === 0 ? `taken for ${pairs.predicted[n]} as it is` : `→ ${pairs.predicted[n]} at distance ${spoken(found)}`;
    const names = ["clean", "adversarial", "difference, stretched"];
    const canvases = pictures.map((value, k) => painted(value, pairs, `${names[k]}, class ${label} ${words}`));
    row.append(make("div", { class: "pair" }, ...canvases, make("div", {}, make("b", {}, `class ${label}`), ` ${words}`)));
  });
  return make("div", { class: "chart" }, make("h4", {}, "Closest adversarial examples: clean, adversarial, difference (stretched)"),
    make("p", { class: "muted", style: "font-size: 0.75rem" }, "L2 distances in the units of the network's inputs, found by attack: upper bounds."), row);
}

function painted(value, { side, channels: colours }, words) {
  const canvas = make("canvas", { width: side, height: side, role: "img", "aria-label": words });
  const context = canvas.getContext("2d"), image = context.createImageData(side, side), size = side * side;
  for (let k = 0; k < size; k++) {
    for (let c = 0; c < 3; c++) image.data[4 * k + c] = value(colours === 3 ? c * size + k : k);
    image.data[4 * k + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
