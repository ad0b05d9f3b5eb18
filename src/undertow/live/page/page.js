// Follows the server: state and verdicts as events, curves fetched piece by piece. Names from the runs only ever
// become text, never markup.
import { Chart, colours, short } from "./chart.js";

const STATES = ["finished", "diverged", "running", "waiting", "failed", "damaged"];
const MARKS = { holds: "✓", fails: "✗", undecided: "?" };
const CHECKS = { "as it must be": "=", violated: "≠" };
const $ = (id) => document.getElementById(id);

function element(tag, { className, text, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const count = (number) => number.toLocaleString("en");
const many = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

function duration(seconds) {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 1800) / 2} h`;
  return `${Math.round(seconds / 43200) / 2} days`;
}

const columnsText = (columns) => Object.entries(columns).map(([name, value]) => `${name} ${shown(value)}`).join(", ");
const shown = (value) => typeof value === "number" ? short(value) : typeof value === "string" ? value : JSON.stringify(value);

// What a section shows is rebuilt only when it has changed, so that focus, selection and open details stay.
const drawn = new Map();
function update(id, data, build) {
  const text = JSON.stringify(data);
  if (drawn.get(id) === text) return;
  drawn.set(id, text);
  $(id).replaceChildren(...build());
}

// --- the connection

let seen = "", wait = 500, source = null, timer = null, lastNews = 0;

function connect() {
  clearTimeout(timer);
  if (source) source.close();
  source = new EventSource(`/events?seen=${encodeURIComponent(seen)}`);
  source.addEventListener("open", () => { wait = 500; link("open", "live"); });
  source.addEventListener("state", (event) => { seen = event.lastEventId; heard(); showState(JSON.parse(event.data)); });
  source.addEventListener("verdicts", (event) => { seen = event.lastEventId; heard(); showVerdicts(JSON.parse(event.data)); });
  source.addEventListener("error", lost);
}

function heard() { lastNews = Date.now(); link("open", "live"); }

function lost() {
  // Our own patience instead of the browser's: it gives up for good when it is answered with an error.
  source.close();
  link("lost", lastNews ? `connection lost at ${new Date(lastNews).toLocaleTimeString()}; trying again` : "no answer; trying again");
  clearTimeout(timer);
  timer = setTimeout(connect, wait);
  wait = Math.min(2 * wait, 15000);
}

function link(state, text) {
  const place = $("link");
  if (place.dataset.state !== state) place.dataset.state = state;
  if (place.textContent !== text) place.textContent = text;
}

addEventListener("online", connect);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && source.readyState === EventSource.CLOSED) connect();
});

// --- state

let state = null;

function showState(news) {
  if (news.problem) { $("problem").textContent = news.problem; $("problem").hidden = false; return; }
  $("problem").hidden = true;
  state = news;
  $("folder").textContent = news.folder;
  $("folder").title = news.folder;
  const over = news.counts.finished + news.counts.diverged;
  $("done").textContent = news.trials ? `${count(over)} of ${count(news.trials)}` : "–";
  $("done-of").textContent = news.trials ? "trials done" : "no study in this folder yet";
  $("left").textContent = news.left.seconds === null ? "" : `≈ ${duration(news.left.seconds)}`;
  $("left-basis").textContent = news.left.seconds === null
    ? (news.trials ? (news.groups.length ? `time left not known: ${news.left.basis}` : news.left.basis) : "")
    : `left, ${news.left.basis}`;
  document.title = news.trials ? `${Math.floor(100 * over / news.trials)} % · undertow live` : "undertow live";
  update("bar", news.counts, () => bar(news.counts, news.trials, $("bar")));
  update("legend", news.counts, () => STATES.filter((each) => news.counts[each] || each !== "damaged").map((each) =>
    element("li", {}, element("i", { className: each }), element("b", { text: count(news.counts[each]) }), ` ${each}`)));
  update("parts", news.parts.map(({ measures, axes, ordered, ...rest }) => rest), () => news.parts.length ? news.parts.map(partRow) : [empty("No study yet.")]);
  update("groups", news.groups, () => news.groups.length ? news.groups.map(groupRow) : [empty("No group of trials is running.")]);
  $("failures-section").hidden = !news.failures.length;
  update("failures", news.failures, () => news.failures.map(failureRow));
  showChoices();
  showChips();
  growCurves();
}

const empty = (text) => element("p", { className: "empty", text });

function bar(counts, total, place) {
  const known = STATES.filter((each) => counts[each]);
  place.setAttribute("aria-label", known.map((each) => `${counts[each]} ${each}`).join(", ") || "no trials yet");
  return known.map((each) => {
    const piece = element("span", { className: each, title: `${count(counts[each])} ${each}` });
    piece.style.width = `${100 * counts[each] / total}%`;
    return piece;
  });
}

const seedsText = (place) => place.seed_set === "own" ? "" : `seeds ${place.seed_set}`;
const placeText = (place) => [place.variant, place.scale, seedsText(place)].filter(Boolean).join(", ");
const partName = (part) => part.part === "main" ? part.study : `${part.study}: ${part.part}`;

function partRow(part) {
  const track = element("div", { className: "bar", role: "img" });
  track.append(...bar(part.counts, part.trials, track));
  const over = part.counts.finished + part.counts.diverged;
  const rest = STATES.filter((each) => each !== "finished" && part.counts[each]).map((each) => `${count(part.counts[each])} ${each}`);
  return element("div", { className: "row" },
    element("p", {}, element("span", { className: "name", text: partName(part) }), element("span", { className: "about", text: placeText(part) })),
    track,
    element("p", { className: "about" }, element("span", { text: `${count(over)} of ${many(part.trials, "trial")}` }), element("span", { text: rest.join(", ") })));
}

function groupRow(group) {
  const track = element("div", { className: "bar", role: "img", "aria-label": `step ${group.step} of ${group.steps}` });
  const piece = element("span", { className: "running" });
  piece.style.width = `${group.steps ? 100 * group.step / group.steps : 0}%`;
  track.append(piece);
  const about = group.steps ? `step ${count(group.step)} of ${count(group.steps)}` : "preparing data and networks";
  const pace = [group.rate ? `${short(group.rate)} steps/s` : "", group.left !== null ? `${duration(group.left)} of steps left` : ""];
  const where = Object.keys(group.shared).length ? columnsText(group.shared) : group.labels.join(", ");
  const row = element("div", { className: "row" },
    element("p", {}, element("span", { className: "name", text: where || group.group }), element("span", { className: "about", text: many(group.trials, "trial") })),
    track,
    element("p", { className: "about" }, element("span", { text: about }), element("span", { text: pace.filter(Boolean).join(", ") })));
  if (group.silent > 20) {
    row.append(element("p", { className: "about silent", text: `no sign of life for ${duration(group.silent)} from process ${group.pid} on ${group.host}: a long measurement, or stuck` }));
  }
  return row;
}

function failureRow(failure) {
  const text = element("pre", { text: "…" });
  const details = element("details", { className: "row" },
    element("summary", { text: `${failure.labels.join(", ") || failure.group}, ${many(failure.trials, "trial")}: ${failure.sentence}` }), text);
  details.addEventListener("toggle", async () => {
    if (!details.open) return;
    const answer = await ask("/failure", { group: failure.group });
    text.textContent = answer ? answer.text || answer.problem : "The server does not answer.";
  });
  return details;
}

async function ask(path, query) {
  try {
    const response = await fetch(`${path}?${new URLSearchParams(query)}`);
    return response.headers.get("content-type") === "application/json" ? await response.json() : null;
  } catch { return null; }
}

// --- curves

const chart = new Chart($("chart"), $("readout"));
let selection = null, known = { name: "", since: 0 }, trials = {}, busy = false, again = false, leftOut = 0;

function options(select, choices, preferred) {
  const text = JSON.stringify(choices);
  if (select.dataset.choices === text) return;
  const before = select.value;
  select.dataset.choices = text;
  select.replaceChildren(...choices.map(([value, name]) => element("option", { value, text: name })));
  const values = choices.map(([value]) => value);
  select.value = values.includes(before) ? before : values.includes(preferred) ? preferred : values[0] ?? "";
}

const currentPart = () => state?.parts.find((part) => part.label === $("label").value);

function showChoices() {
  const running = state.groups.flatMap((group) => group.labels);
  options($("label"), state.parts.map((part) => [part.label, `${partName(part)} (${placeText(part)})`]), running[0]);
  const part = currentPart();
  if (!part) return;
  options($("measure"), part.measures.map((pair) => [JSON.stringify(pair), pair[1] ? `${pair[0]} · ${pair[1]}` : pair[0]]));
  // Best an axis with an order: its shades can be told apart and compared.
  const axes = part.axes.filter((axis) => axis !== "seed");
  options($("colour"), part.axes.map((axis) => [axis, axis]), axes.find((axis) => part.ordered.includes(axis)) ?? axes[0]);
}

function select() {
  const next = JSON.stringify([$("label").value, $("measure").value]);
  if (next === selection) return;
  selection = next;
  known = { name: "", since: 0 };
  trials = {};
  chart.clear();
}

async function growCurves() {
  select();
  if (!$("measure").value) return;
  if (busy) { again = true; return; }
  busy = true;
  const asked = selection, [measure, key] = JSON.parse($("measure").value);
  const answer = await ask("/curves", { label: $("label").value, measure, key, since: known.since, name: known.name });
  busy = false;
  if (answer?.curves && asked === selection) {
    if (answer.name !== known.name) { chart.clear(); trials = {}; leftOut = answer.left_out ?? 0; }
    known = { name: answer.name, since: answer.revision };
    Object.assign(trials, answer.trials);
    chart.sign = answer.sign;
    for (const curve of answer.curves) chart.extend(curve.trial, curve);
    dress();
  }
  if (again) { again = false; growCurves(); }
}

const isDark = () => getComputedStyle(document.documentElement).getPropertyValue("--dark").trim() === "1";

// Colours, names and what the picture says to those who do not see it.
function dress() {
  const axis = $("colour").value, part = currentPart();
  if (!part) return;
  const palette = colours(Object.values(trials).map((columns) => columns[axis] ?? null), isDark());
  const growing = new Set();
  for (const trial of chart.curves.keys()) if (!(trial in trials)) trials[trial] = {};
  for (const [trial, curve] of chart.curves) {
    curve.colour = palette.get(JSON.stringify(trials[trial][axis] ?? null))?.colour;
    curve.name = columnsText(Object.fromEntries(Object.entries(trials[trial]).filter(([name]) => part.axes.includes(name))));
    curve.growing = part.counts.running > 0 && curve.step.length > 0 && !curve.whole;
    if (curve.growing) growing.add(trial);
  }
  const entries = axis ? [...palette.values()] : [];
  update("chart-legend", [axis, isDark(), entries, leftOut], () => {
    const items = entries.slice(0, 16).map(({ value, colour }) => {
      const sample = element("i");
      sample.style.background = colour;
      return element("li", {}, sample, shown(value));
    });
    if (items.length) items.unshift(element("li", { text: axis }));
    if (entries.length > 16) items.push(element("li", { text: `and ${entries.length - 16} more` }));
    if (leftOut) items.push(element("li", { text: `${count(leftOut)} trials are left out` }));
    return items;
  });
  const label = `${many(chart.curves.size, "curve")} of ${$("measure").selectedOptions[0]?.textContent ?? ""}, ${growing.size} still growing`;
  if ($("chart").getAttribute("aria-label") !== label) $("chart").setAttribute("aria-label", label);
  chart.tell();
  chart.redraw();
}

for (const id of ["label", "measure"]) $(id).addEventListener("change", () => { showChoices(); showChips(); growCurves(); });
$("colour").addEventListener("change", dress);
$("log-y").addEventListener("change", (event) => { chart.logY = event.target.checked; chart.redraw(); });
$("log-x").addEventListener("change", (event) => { chart.logX = event.target.checked; chart.redraw(); });
$("controls").addEventListener("submit", (event) => event.preventDefault());

// --- verdicts

// A verdict before the grid is complete would be one of those that happened to finish first: until then, effects only.
const isOpen = (row) => !row.family.complete;

function tally(rows) {
  const counts = {};
  for (const row of rows) counts[row.verdict] = (counts[row.verdict] ?? 0) + 1;
  const plural = { holds: "hold", fails: "fail", "as it must be": "as they must be" };
  return [...Object.keys(MARKS), ...Object.keys(CHECKS)].filter((each) => counts[each])
    .map((each) => `${counts[each]} ${counts[each] === 1 ? each : plural[each] ?? each}`).join(", ");
}

function showVerdicts(news) {
  const judged = news.rows.filter((row) => !isOpen(row)), open = news.rows.length - judged.length;
  const checks = tally(judged.filter((row) => row.check));
  const notes = [
    [tally(judged.filter((row) => !row.check)), checks ? `checks: ${checks}` : ""].filter(Boolean).join("; "),
    open ? `${many(open, "claim")} wait for trials: effects so far` : "",
  ].filter(Boolean).map((each) => `${each}.`);
  notes.push(news.note, news.computing ? "Judging the claims …" : !news.current && news.rows.length ? "Trials have finished since; judged again soon." : "");
  if (!news.rows.length && !news.computing && news.current && !news.note) notes.push("The studies in this folder make no claims.");
  $("verdicts-note").textContent = notes.filter(Boolean).join(" ");
  update("verdicts", news.rows, () => {
    const found = [], groups = new Map();
    for (const row of news.rows) {
      const title = `${row.study}, ${placeText(row)}`;
      groups.set(title, [...(groups.get(title) ?? []), row]);
    }
    for (const [title, rows] of groups) {
      found.push(element("h3", { className: "group-title", text: title }));
      if (!isOpen(rows[0])) found.push(element("p", { className: "note", text: familyText(rows[0].family) }));
      for (const row of [...rows.filter((each) => !each.check), ...rows.filter((each) => each.check)]) found.push(verdictRow(row));
    }
    return found;
  });
}

const two = (number) => String(Number(number.toPrecision(2)));

const familyText = (family) => family.claims
  ? `${many(family.claims, "claim")} judged together: ${family.decided} decided, at most ${two(family.expected_false)} of these expected to be false. Alone, ${family.decided_alone} would be decided.`
  : "No claim could be tested.";

function evidence(row) {
  const least = row.estimand.startsWith("share") ? "at least " : "";
  const alone = row.verdict_alone !== row.verdict ? ` (${row.verdict_alone} alone)` : "";
  return [
    row.id,
    row.effect !== null ? `effect ${short(row.effect)}` : "",
    row.interval ? `[${short(row.interval[0])}, ${short(row.interval[1])}], covers ${least}${(100 * row.coverage).toFixed(1)} %` : "",
    `n = ${row.n}`,
    row.p_adjusted !== null && !isOpen(row) ? `p = ${two(row.p)} alone, ${two(row.p_adjusted)} among ${many(row.family.claims, "claim")}${alone}` : "",
    row.side ? `claimed: ${row.side} ${short(row.line)}` : "",
  ].filter(Boolean).join(" · ");
}

function verdictRow(row) {
  const [verdict, text] = isOpen(row) ? ["open", "… so far"] : [row.verdict, `${MARKS[row.verdict] ?? CHECKS[row.verdict] ?? ""} ${row.verdict}`];
  const asides = [row.note, row.check ? `a check, not counted${typeof row.check === "string" ? `: ${row.check}` : ""}` : "", row.hindsight ? `settled after a look at its records: ${row.hindsight}` : ""];
  return element("div", { className: "row verdict" },
    element("span", { className: "badge", "data-verdict": verdict, text }),
    element("div", {},
      element("p", { text: row.text }),
      element("p", { className: "note", text: evidence(row) }),
      element("p", { className: "note", text: asides.filter(Boolean).join("; ") })));
}

// --- trials

let wanted = "";

function showChips() {
  const part = currentPart();
  if (!part) return;
  const chips = $("chips");
  if (!chips.children.length) {
    for (const each of STATES) {
      const chip = element("button", { type: "button", "data-state": each, "aria-pressed": "false" });
      chip.addEventListener("click", () => { wanted = wanted === each ? "" : each; showChips(); });
      chips.append(chip);
    }
  }
  for (const chip of chips.children) {
    const each = chip.dataset.state, text = `${count(part.counts[each])} ${each}`;
    if (chip.textContent !== text) chip.textContent = text;
    chip.setAttribute("aria-pressed", String(wanted === each));
    chip.hidden = !part.counts[each] && wanted !== each;
  }
  showTrials(part);
}

async function showTrials(part) {
  if (!wanted) { update("trials", null, () => [empty("Choose a state above to list its trials.")]); return; }
  const question = JSON.stringify([part.label, wanted, part.counts]);
  if ($("trials").dataset.question === question) return;
  $("trials").dataset.question = question;
  const answer = await ask("/trials", { label: part.label, state: wanted });
  if (!answer?.trials || $("trials").dataset.question !== question) return;
  update("trials", answer, () => {
    if (!answer.trials.length) return [empty("None.")];
    const names = [...new Set(answer.trials.flatMap((each) => Object.keys(each.columns)))];
    const reasons = answer.trials.some((each) => each.reason);
    const head = element("tr", {}, ...["trial", ...names, ...(reasons ? ["why"] : [])].map((text) => element("th", { text, scope: "col" })));
    const rows = answer.trials.map((each) => element("tr", {}, element("td", { text: each.trial }),
      ...names.map((name) => element("td", { text: name in each.columns ? shown(each.columns[name]) : "" })),
      ...(reasons ? [element("td", { text: each.reason ?? "" })] : [])));
    const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
    const rest = answer.of - answer.trials.length;
    return rest > 0 ? [table, empty(`and ${count(rest)} more`)] : [table];
  });
}

// --- light and dark

function paint(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  if (state) dress();
  chart.redraw();
}
try { paint(localStorage.getItem("undertow-theme")); } catch { /* storage may be switched off */ }
$("theme").addEventListener("click", () => {
  const theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("undertow-theme", theme); } catch { /* the choice then lasts until the page is left */ }
  paint(theme);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => paint());

// The token is in a cookie from now on; the address can be shown and shared without it.
if (location.search.includes("token=")) history.replaceState(null, "", "/");
connect();
