// How figures of the papers look on this page: their colours on its ground, their panels in its width.

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif";

function figureConfig(dark) {
  const colours = dark
    ? { ink: "#e6eaec", muted: "#9fabb3", rule: "#303c44" }
    : { ink: "#1b2328", muted: "#55616a", rule: "#e3e6e6" };
  return {
    background: null,
    font: FONT,
    axis: { labelColor: colours.muted, titleColor: colours.ink, gridColor: colours.rule, domainColor: colours.muted, tickColor: colours.muted, titleFontWeight: 500 },
    legend: { labelColor: colours.ink, titleColor: colours.ink, titleFontWeight: 500 },
    header: { labelColor: colours.ink, titleColor: colours.ink, titleFontWeight: 500 },
    title: { color: colours.ink, subtitleColor: colours.muted },
    style: { "guide-label": { font: FONT }, "guide-title": { font: FONT } },
    text: { color: colours.ink },
    rule: { color: colours.muted },
    view: { stroke: colours.rule },
  };
}

function channels(colour) {
  const short = /^#([0-9a-f])([0-9a-f])([0-9a-f])$/i.exec(colour);
  const hex = short ? short.slice(1).map((c) => c + c) : /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(colour)?.slice(1);
  return hex ? hex.map((c) => parseInt(c, 16)) : { black: [0, 0, 0], white: [255, 255, 255] }[colour] ?? null;
}

/** The colour on a dark ground: the same hue, light enough to stand out; the order of lightness stays. */
function onDark(colour) {
  const rgb = typeof colour === "string" ? channels(colour) : null;
  if (!rgb) return colour;
  const [red, green, blue] = rgb.map((c) => c / 255);
  const most = Math.max(red, green, blue), least = Math.min(red, green, blue), range = most - least;
  const lightness = (most + least) / 2;
  if (lightness > 0.62) return colour;
  const grey = range < 0.02;
  const turn = grey ? 0 : most === red ? ((green - blue) / range + 6) % 6 : most === green ? (blue - red) / range + 2 : (red - green) / range + 4;
  const saturation = grey ? 0 : Math.max(range / (1 - Math.abs(2 * lightness - 1)), 0.45);
  return `hsl(${Math.round(turn * 60)} ${Math.round(saturation * 100)}% ${Math.round(56 + 10 * lightness)}%)`;
}

const kindOf = (unit) => unit.mark?.type ?? unit.mark;
const hasCells = (node) => kindOf(node) === "rect" || (node.layer ?? []).some((unit) => kindOf(unit) === "rect");

/** The figure for a dark ground: colours of marks and scales lightened; heat maps keep theirs. */
function forDark(node) {
  if (Array.isArray(node)) return node.map(forDark);
  if (node === null || typeof node !== "object") return node;
  if (hasCells(node)) return node; // with the numbers in its cells
  const copy = {};
  for (const [name, value] of Object.entries(node)) {
    if (["color", "stroke", "fill"].includes(name) && typeof value === "string") copy[name] = onDark(value);
    else if (name === "range" && Array.isArray(value)) copy[name] = value.map(onDark);
    else if (name === "scheme" && value?.name === "viridis") copy[name] = { ...value, extent: [0.3, 1] };
    else if (name === "scheme" && value === "viridis") copy[name] = { name: value, extent: [0.3, 1] };
    else copy[name] = name === "datasets" ? value : forDark(value);
  }
  return copy;
}

/** A title, of one line or several, in lines that fit; Vega would let it run out of the figure. */
function wrapped(title, room) {
  const most = Math.max(20, Math.floor(room / 5.8));
  return [title].flat().flatMap((text) => {
    const lines = [""];
    for (const word of text.split(" ")) {
      if (lines.at(-1) && lines.at(-1).length + word.length >= most) lines.push("");
      lines[lines.length - 1] += (lines.at(-1) ? " " : "") + word;
    }
    return lines;
  });
}

/** Each part of a figure that is a figure itself, the whole first. */
function* panels(node) {
  yield node;
  for (const name of ["spec", "hconcat", "vconcat", "concat"]) for (const each of [node[name] ?? []].flat()) yield* panels(each);
}

/** How wide panels can be in `room` pixels, and whether the legend must go below them: right for most figures. */
function firstGuess(spec, columns, room) {
  if (room < 440) return [room - 70, true];
  const natural = Math.max(...[...panels(spec)].filter((p) => p.mark || p.layer).map((p) => p.width ?? 300));
  const side = spec.facet?.field ? Math.min(spec.columns ?? columns, columns, Math.max(1, Math.floor(room / 210))) : columns;
  const share = (legend) => Math.floor((room - 60 - legend) / side - (side > 1 ? 45 : 0));
  if (natural <= share(120)) return [Infinity, false];
  return share(120) >= 190 ? [share(120), false] : [Math.max(share(0), 110), true];
}

/** Numbers in cells that became smaller: smaller too, or left to the pointer where they could not be read. */
function shrinkNumbers(panel, share) {
  panel.layer = panel.layer.flatMap((unit) => {
    const size = share * (unit.mark?.fontSize ?? 11);
    if (kindOf(unit) !== "text" || unit.params) return [unit];
    return size < 6 ? [] : [{ ...unit, mark: { ...(unit.mark.type ? unit.mark : { type: "text" }), fontSize: size } }];
  });
}

/** The figure for `room` pixels: panels at most `width` wide, below each other where two do not fit. */
function fitted(spec, columns, room, width, legendBelow) {
  const copy = structuredClone(spec);
  if (columns > 1 && copy.facet?.column && !copy.facet.row && room < 440) {
    copy.facet = copy.facet.column;
    copy.columns = 1;
  } else if (columns > 1 && copy.facet?.field) {
    copy.columns = Math.max(1, Math.min(copy.columns ?? columns, Math.floor(room / 210)));
  } else if (copy.hconcat && room < 440) {
    copy.vconcat = copy.hconcat;
    delete copy.hconcat;
  }
  for (const each of panels(copy)) {
    if (each.mark || each.layer) {
      const natural = typeof each.width === "number" ? each.width : 300;
      each.width = Math.min(natural, width);
      if (each.layer && hasCells(each) && each.width < natural) shrinkNumbers(each, each.width / natural);
    }
    for (const panels of [each.facet, each.facet?.column, each.encoding?.column]) {
      // Titles of narrow panels would run into each other.
      if (panels?.field && Number.isFinite(width)) panels.header = { ...panels.header, labelLimit: width + 15 };
    }
    if (typeof each.title === "string") each.title = wrapped(each.title, room);
    else if (each.title?.text) each.title.text = wrapped(each.title.text, room);
  }
  if (legendBelow) copy.config = { ...copy.config, legend: { ...copy.config?.legend, orient: "bottom", columns: 4 } };
  return copy;
}
