// The entries of a figure's legends as buttons: what a click on the legend does, for keyboards and fingers.

/** The legends that single out series: parameter, field and the values it takes. */
function legendsOf(spec, tables, found = []) {
  if (spec === null || typeof spec !== "object") return found;
  for (const param of Array.isArray(spec.params) ? spec.params : []) {
    if (param.bind !== "legend") continue;
    const field = param.select.fields[0];
    const values = Object.values(tables).flatMap((table) => table[field] ?? []);
    found.push({ name: param.name, field, values: [...new Set(values)] });
  }
  for (const value of Object.values(spec)) legendsOf(value, tables, found);
  return found;
}

async function toggleSeries(card, button) {
  const open = button.getAttribute("aria-expanded") !== "true";
  button.setAttribute("aria-expanded", String(open));
  find(".series", card)?.remove();
  if (!open) return;
  const { spec, tables } = await figureSource(Number(card.dataset.figure));
  const own = Object.fromEntries([...tablesIn(spec)].filter((name) => name in tables).map((name) => [name, tables[name]]));
  const rows = legendsOf(spec, own).map(({ name, field, values }) => {
    const buttons = values.map((value) => {
      const toggle = make("button", { type: "button", "aria-pressed": "false" }, shownValue(value));
      toggle.addEventListener("click", () => {
        toggle.setAttribute("aria-pressed", String(toggle.getAttribute("aria-pressed") !== "true"));
        const chosen = values.filter((_, i) => buttons[i].getAttribute("aria-pressed") === "true");
        const fields = [{ type: "E", field }];
        drawn.get(find(".drawing", card))?.data(`${name}_store`, chosen.map((each) => ({ unit: "", fields, values: [each] }))).run();
      });
      return toggle;
    });
    return make("div", { role: "group", "aria-label": `single out by ${field}` }, make("span", { class: "muted" }, `${field.replaceAll("_", " ")}: `), ...buttons);
  });
  const nothing = make("span", { class: "muted" }, "This figure has one series only.");
  card.append(make("div", { class: "series" }, ...(rows.length ? rows : [nothing])));
}
