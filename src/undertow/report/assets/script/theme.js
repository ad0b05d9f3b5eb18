// Light or dark: what the system prefers, unless the reader chose otherwise.

const themeListeners = [];
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : prefersDark.matches;
}

function themeChanged() {
  find("#theme").setAttribute("aria-pressed", String(isDark()));
  for (const listener of themeListeners) listener();
}

function startTheme() {
  try {
    // Some browsers give files no storage: the choice then lasts as long as the page.
    const kept = localStorage.getItem("undertow-theme");
    if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  } catch { /* nothing kept */ }
  find("#theme").addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("undertow-theme", next); } catch { /* not kept */ }
    themeChanged();
  });
  prefersDark.addEventListener("change", themeChanged);
  find("#theme").setAttribute("aria-pressed", String(isDark()));
}

/** A colour of the page, by its name in the palette. */
const pageColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
