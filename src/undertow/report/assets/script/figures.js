// The figures: drawn when they come into view, redrawn when the colours change.

let packedFigures = null;
const drawn = new Map(); // element → Vega view

async function figureSource(number) {
  packedFigures ??= unpacked("packed-figures");
  const { figures, tables } = await packedFigures;
  const { spec, columns } = figures[number];
  return { spec, columns, tables };
}

function rowsOf(table) {
  const names = Object.keys(table);
  return (table[names[0]] ?? []).map((_, i) => Object.fromEntries(names.map((name) => [name, table[name][i]])));
}

function tablesIn(node, found = new Set()) {
  if (node === null || typeof node !== "object") return found;
  if (typeof node.data?.name === "string") found.add(node.data.name);
  for (const value of Object.values(node)) tablesIn(value, found);
  return found;
}

/** The whole Vega-Lite figure, its data included. */
function completed(spec, tables) {
  const names = [...tablesIn(spec)].filter((name) => name in tables);
  return { ...spec, datasets: Object.fromEntries(names.map((name) => [name, rowsOf(tables[name])])) };
}

/** Draw a figure into an element, in `room` pixels where that is given; returns its Vega view. */
async function drawInto(element, number, { dark, room, renderer = "svg", wheel = false }) {
  const { spec, columns, tables } = await figureSource(number);
  const options = { actions: false, ast: true, renderer, config: figureConfig(dark), tooltip: { theme: dark ? "dark" : "light" } };
  const narrow = room && room < 440;
  let [width, below] = room ? firstGuess(spec, columns, room) : [Infinity, false];
  for (let attempt = 0; ; attempt++) {
    let shown = room ? fitted(spec, columns, room, width, below) : structuredClone(spec);
    if (dark) shown = forDark(shown);
    if (wheel) plainWheel(shown);
    const { view, finalize } = await vegaEmbed(element, completed(shown, tables), options);
    const drawing = find("svg", element), surplus = room && drawing ? drawing.getBoundingClientRect().width - room : 0;
    if (surplus <= 0 || attempt === 3) return view;
    finalize();
    // Labels and legends take what they need, which only drawing them tells: the panels give way, or the legend.
    const side = narrow ? 1 : shown.columns ?? columns;
    const widest = Math.max(...[...panels(shown)].filter((p) => p.mark || p.layer).map((p) => p.width));
    const next = widest - Math.ceil(surplus / side) - 2;
    if (!below && next < 190) below = true;
    else width = Math.max(next, 110);
  }
}

function plainWheel(node) {
  if (node === null || typeof node !== "object") return;
  if (node.type === "interval" && node.zoom) node.zoom = "wheel!";
  Object.values(node).forEach(plainWheel);
}

async function drawCard(card) {
  const element = find(".drawing", card);
  drawn.get(element)?.finalize();
  drawn.set(element, null);
  findAll(".series button", card).forEach((button) => button.setAttribute("aria-pressed", "false"));
  const room = element.clientWidth;
  try {
    drawn.set(element, await drawInto(element, Number(card.dataset.figure), { dark: isDark(), room }));
    element.style.minHeight = "0";
    card.dataset.drawn = "yes";
  } catch (error) {
    element.replaceChildren(make("p", { class: "notice" }, `This figure could not be drawn: ${error.message}`));
    console.error(error);
  }
}

async function enlarge(card) {
  const dialog = find("#large"), element = find(".drawing", dialog);
  dialog.showModal();
  const view = await drawInto(element, Number(card.dataset.figure), { dark: isDark(), wheel: true });
  dialog.addEventListener("close", () => { view.finalize(); element.replaceChildren(); }, { once: true });
}

function startFigures() {
  const cards = findAll(".card[data-figure]").filter((card) => card.dataset.figure !== "");
  // One after the other, with a pause for clicks and scrolling between them.
  let queue = Promise.resolve();
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      queue = queue.then(idle).then(() => drawCard(target));
    }
  }, { rootMargin: "200px" });
  for (const card of cards) {
    seen.observe(card);
    card.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button?.dataset.save) saveFigure(card, button.dataset.save);
      else if (button?.matches("[data-enlarge]")) enlarge(card);
      else if (button?.matches("[data-series]")) toggleSeries(card, button);
      else if (button?.matches("[data-reset]")) drawCard(card);
    });
  }
  const redraw = () => {
    for (const card of cards) {
      if (card.dataset.drawn !== "yes") continue;
      card.dataset.drawn = "";
      seen.observe(card); // those out of sight wait until they are seen again
    }
  };
  themeListeners.push(redraw);
  let width = window.innerWidth, waiting;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 200);
  });
}
