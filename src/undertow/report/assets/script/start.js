// Everything begins here.

startTheme();
startLedger();
startFigures();
for (const button of findAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(button.dataset.copy); button.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(button.previousElementSibling); }
  });
}
idle().then(startBrowser).catch((error) => {
  find("#browser-view").replaceChildren(make("p", { class: "notice" }, `The records could not be unpacked: ${error.message}`));
  console.error(error);
});
