// The ledger of claims: filtered by verdict, study, variant and words.

function startLedger() {
  const claims = findAll(".claim").map((element) => ({
    element,
    study: element.dataset.study,
    check: element.classList.contains("check"),
    text: element.textContent.toLowerCase(),
    findings: findAll(".finding", element),
  }));
  if (!claims.length) return;
  const toggles = findAll(".toggle[data-verdict]");
  const [study, variant, text] = ["study", "variant", "text"].map((name) => find(`#filter-${name}`));

  function apply() {
    const verdicts = new Set(toggles.filter((t) => t.getAttribute("aria-pressed") === "true").map((t) => t.dataset.verdict));
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0, findings = 0, checks = 0;
    for (const claim of claims) {
      const fits = (!study.value || claim.study === study.value) && words.every((word) => claim.text.includes(word));
      let visible = 0;
      for (const finding of claim.findings) {
        const { verdict, variant: of } = finding.dataset;
        finding.hidden = !(fits && verdicts.has(verdict) && (!variant.value || of === variant.value));
        visible += !finding.hidden;
      }
      claim.element.hidden = visible === 0;
      if (claim.check) checks += visible > 0;
      else { shown += visible > 0; findings += visible; }
    }
    for (const title of findAll(".checks")) title.hidden = checks === 0;
    find("#nothing").hidden = shown + checks > 0;
    find("#filter-count").textContent =
      `${shown} of ${claims.filter((claim) => !claim.check).length} claims, ${findings} ${findings === 1 ? "verdict" : "verdicts"}`
      + (checks ? `; ${checks} ${checks === 1 ? "check" : "checks"}` : "");
  }

  for (const toggle of toggles) {
    toggle.addEventListener("click", () => {
      toggle.setAttribute("aria-pressed", String(toggle.getAttribute("aria-pressed") !== "true"));
      apply();
    });
  }
  for (const control of [study, variant]) control.addEventListener("change", apply);
  text.addEventListener("input", apply);
  // A link to a claim that the filter hides must still lead somewhere.
  window.addEventListener("hashchange", () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target?.matches(".claim[hidden]")) return;
    for (const toggle of toggles) toggle.setAttribute("aria-pressed", "true");
    for (const control of [study, variant, text]) control.value = "";
    apply();
    target.scrollIntoView();
  });
  apply();
}
