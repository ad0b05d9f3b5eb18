"""The report in a real browser without a network: it draws, filters, browses, saves, and can be used by keyboard."""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.report.stores import own_study, publish, run
from undertow.config.grid import StudyConfig
from undertow.config.trial import validate
from undertow.probe.records import Record
from undertow.report.page import write_report

WIDE = {"width": 1280, "height": 900}
NARROW = {"width": 390, "height": 844}


class Watched:
    """A page, with all that it complained about or asked of the network."""

    def __init__(self, browser: Any, report: Path, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": WIDE, "reduced_motion": "reduce", **options})
        self.context.set_offline(True)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self._complain(message.type, message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(report.as_uri())
        self.page.wait_for_selector("#browser-view .chart")

    def _complain(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(f"{kind}: {text}")

    def drawn(self, name: str) -> Any:
        """The card of a figure, once it is drawn."""
        card = self.page.locator(f'.card[data-name="{name}"]')
        card.scroll_into_view_if_needed()
        self.page.wait_for_selector(f'.card[data-name="{name}"][data-drawn=yes] svg')
        return card


@pytest.fixture(scope="module")
def shared(chromium: Any, report: Path) -> Iterator[Watched]:
    """One page for the tests that leave it as they found it."""
    watched = Watched(chromium, report)
    yield watched
    assert not watched.complaints
    watched.context.close()


LEFT = "stable-rank.paper.smoke.fig1-left"


def test_it_opens_offline_and_asks_nothing_of_anyone(chromium: Any, report: Path) -> None:
    watched = Watched(chromium, report)
    for card in watched.page.locator(".card[data-figure]").all():
        watched.drawn(card.get_attribute("data-name"))
    assert not watched.complaints
    outside = [url for url in watched.requests if not url.startswith(("file:", "data:", "blob:"))]
    assert not outside
    assert watched.requests.count(report.as_uri()) == 1
    watched.context.close()


def test_figures_are_drawn_only_when_they_come_into_view(chromium: Any, report: Path) -> None:
    watched = Watched(chromium, report, viewport={"width": 1280, "height": 300})
    assert watched.page.locator(".card[data-drawn=yes]").count() == 0
    assert watched.page.locator(".card svg").count() == 0
    watched.drawn(LEFT)
    watched.context.close()


def test_the_ledger_is_filtered(shared: Watched) -> None:
    page = shared.page
    claims, count = page.locator(".claim:visible"), page.locator("#filter-count")
    everything = claims.count()
    verdicts = page.locator(".finding:visible").count()
    holds = page.locator('.finding[data-verdict="holds"]').count()
    assert 0 < holds < verdicts
    page.click('.toggle[data-verdict="holds"]')
    assert page.locator(".finding:visible").count() == verdicts - holds
    page.click('.toggle[data-verdict="holds"]')
    page.select_option("#filter-variant", "authors")
    assert set(page.locator(".finding:visible").evaluate_all("all => all.map(e => e.dataset.variant)")) == {
        "authors"
    }
    page.select_option("#filter-variant", "")
    page.fill("#filter-text", "LEAKY whatever")
    assert claims.count() == 1
    assert count.text_content().startswith(f"1 of {everything} claims")
    page.fill("#filter-text", "no claim says this")
    assert page.locator("#nothing").is_visible()
    page.fill("#filter-text", "")
    assert claims.count() == everything


def test_a_link_finds_a_claim_that_the_filter_hides(shared: Watched) -> None:
    page = shared.page
    page.fill("#filter-text", "leaky")
    page.locator(".chip").first.click()
    target = page.locator(page.locator(".chip").first.get_attribute("href").replace(".", "\\."))
    assert target.is_visible()
    assert page.input_value("#filter-text") == ""


def faded(card: Any) -> int:
    """How many lines of a figure are faded."""
    return int(
        card.evaluate(
            "c => [...c.querySelectorAll('.mark-line path')].filter(p => p.getAttribute('opacity') < 0.5).length"
        )
    )


def test_a_click_on_the_legend_singles_out_a_series(shared: Watched) -> None:
    card = shared.drawn(LEFT)
    lines = card.locator(".mark-line path").count()
    assert lines == 12  # three scales in four panels: rank and loss, of both activations
    assert faded(card) == 0
    card.locator(".role-legend-label text").first.click()
    shared.page.wait_for_function(
        "c => [...c.querySelectorAll('.mark-line path')].some(p => p.getAttribute('opacity') < 0.5)",
        arg=card.element_handle(),
    )
    assert faded(card) == lines - 4  # one of three scales, in every panel
    card.locator("[data-reset]").click()
    shared.page.wait_for_function(
        "c => ![...c.querySelectorAll('.mark-line path')].some(p => p.getAttribute('opacity') < 0.5)",
        arg=card.element_handle(),
    )


def test_series_are_singled_out_by_keyboard_too(shared: Watched) -> None:
    card = shared.drawn(LEFT)
    card.locator("[data-series]").focus()
    shared.page.keyboard.press("Enter")
    first = card.locator(".series button").first
    first.focus()
    shared.page.keyboard.press("Space")
    assert first.get_attribute("aria-pressed") == "true"
    assert faded(card) == card.locator(".mark-line path").count() - 4
    shared.page.keyboard.press("Space")
    assert faded(card) == 0
    card.locator("[data-series]").click()


def test_pointing_at_a_curve_tells_its_values(shared: Watched) -> None:
    card = shared.drawn(LEFT)
    card.locator(".mark-symbol.role-mark path").nth(3).hover(force=True)
    shared.page.wait_for_selector("#vg-tooltip-element.visible")
    assert "epoch" in shared.page.locator("#vg-tooltip-element").text_content()


def test_the_wheel_zooms_with_ctrl_and_scrolls_without(shared: Watched) -> None:
    card = shared.drawn(LEFT)
    box = card.locator(".drawing svg").bounding_box()
    shared.page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + box["height"] * 0.5)
    labels = card.locator(".role-axis-label text")
    before = labels.all_text_contents()
    shared.page.mouse.wheel(0, 5)
    assert labels.all_text_contents() == before
    shared.drawn(LEFT)
    shared.page.keyboard.down("Control")
    shared.page.mouse.wheel(0, -400)
    shared.page.keyboard.up("Control")
    shared.page.wait_for_function(
        "([c, before]) => [...c.querySelectorAll('.role-axis-label text')].map(t => t.textContent).join() !== before",
        arg=[card.element_handle(), ",".join(before)],
    )
    card.locator("[data-reset]").click()
    shared.drawn(LEFT)


def saved(shared: Watched, kind: str) -> bytes:
    card = shared.drawn(LEFT)
    with shared.page.expect_download() as download:
        card.locator(f'[data-save="{kind}"]').click()
    assert download.value.suggested_filename == f"{LEFT}.{kind}"
    return Path(download.value.path()).read_bytes()


def test_figures_are_saved_as_svg_and_png(shared: Watched) -> None:
    svg = saved(shared, "svg").decode()
    assert svg.startswith("<svg")
    assert "stable rank of W" in svg
    png = saved(shared, "png")
    assert png.startswith(b"\x89PNG")
    width = int.from_bytes(png[16:20], "big")
    assert width > 1500  # three dots for each of the page's


def test_a_figure_is_saved_as_a_pdf_that_is_whole(shared: Watched) -> None:
    pdf = saved(shared, "pdf")
    assert pdf.startswith(b"%PDF-1.4")
    table = int(pdf.rsplit(b"startxref\n", 1)[1].split(b"\n")[0])
    assert pdf[table:].startswith(b"xref")
    for offset in re.findall(rb"^(\d{10}) 00000 n", pdf[table:], re.MULTILINE):
        assert re.match(rb"\d+ 0 obj\n", pdf[int(offset) :])
    head = re.search(rb"/Width (\d+) /Height (\d+).*?/Length (\d+) >>\nstream\n", pdf, re.DOTALL)
    assert head
    width, height, length = map(int, head.groups())
    pixels = zlib.decompress(pdf[head.end() : head.end() + length])
    assert len(pixels) == 3 * width * height
    assert pixels[:3] == b"\xff\xff\xff"  # paper is white
    assert len(set(pixels)) > 20  # and something is on it


def test_the_data_behind_a_figure_is_saved(shared: Watched) -> None:
    tables = saved(shared, "csv").decode().split("\r\n\r\n")  # ranks, and the loss below them
    ranks, losses = (list(csv.DictReader(io.StringIO(table))) for table in tables)
    assert len(ranks) == len(losses) == 2 * 3 * 16  # activations, scales, moments
    first = min(ranks, key=lambda row: float(row["epoch"]))
    assert float(first["mean"]) == pytest.approx(7.0, abs=1e-6)


def test_the_grid_browser_shows_one_network_or_many(shared: Watched) -> None:
    page = shared.page
    page.select_option("#browser-grid", label="mine · own · own")
    page.wait_for_selector('[data-axis="width"]')
    page.select_option('[data-axis="width"]', "8")
    page.select_option('[data-axis="seed"]', "")
    assert page.locator("#browser-count").text_content() == "2 networks"
    assert page.locator("#browser-view .chart").first.locator("path").count() == 2
    page.select_option('[data-axis="seed"]', "1")
    assert page.locator("#browser-count").text_content() == "1 network"
    text = page.locator("#browser-view").text_content()
    for words in ("finished", "Finished after 9 steps", "singular values of hidden.weight", "model.width"):
        assert words in text
    canvases = page.locator(".pair canvas")
    assert canvases.count() == 6  # two examples: clean, adversarial, difference
    shades = "c => new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size"
    assert canvases.nth(1).evaluate(shades) > 5
    chart = page.locator("#browser-view .chart", has_text="accuracy")
    chart.locator("svg").hover()
    assert re.search(r"epoch \d: 0?\.?\d", chart.locator("output").text_content())


def test_a_network_that_diverged_at_once_shares_the_axis_of_the_others(chromium: Any, tmp_path: Path) -> None:
    document = {**own_study().model_dump(mode="json"), "grid": {"learning_rate": [1e9, 0.5], "seed": [0]}}
    run(tmp_path, validate(StudyConfig, document))
    watched = Watched(chromium, write_report(tmp_path, tmp_path / "report.html"))
    watched.page.select_option('[data-axis="learning_rate"]', "")
    assert "1 diverged, 1 finished" in watched.page.locator("#browser-view").text_content()
    chart = watched.page.locator("#browser-view .chart", has_text="loss · mean")
    assert chart.locator("output").text_content().startswith("epoch 3: ")
    box = chart.locator("svg").bounding_box()
    watched.page.mouse.move(box["x"] + 0.95 * box["width"], box["y"] + 0.5 * box["height"])
    assert chart.locator("output").text_content().startswith("epoch 3: ")
    assert not watched.complaints
    watched.context.close()


def test_a_bound_is_not_shown_as_an_error_to_both_sides(chromium: Any, tmp_path: Path) -> None:
    document = {**own_study().model_dump(mode="json"), "grid": {"seed": [0, 1]}}
    study = validate(StudyConfig, document)
    readings = [
        ("energy", "", 2.0, 0.1),
        ("stable-rank", "first", 3.0, 0.25),
        ("stable-rank", "exact", 1.5, 1e-9),
        ("collaboration", "a:co_correlation", 0.5, 0.01),
        ("loss", "mean", 0.75, None),
        ("robust-accuracy", "0.5", 0.25, None),
        ("cluster-radius", "certified", 0.125, None),
    ]
    records = {
        point.trial.id: [Record(point.trial.id, 0, 0, *reading) for reading in readings]
        for point in study.points
    }
    publish(tmp_path, study, records)
    watched = Watched(chromium, write_report(tmp_path, tmp_path / "report.html"))
    charts = watched.page.locator("#browser-view .chart:has(output)")

    def shown() -> dict[str, str]:
        titles, values = (charts.locator(part).all_text_contents() for part in ("h4", "output"))
        return dict(zip(titles, values, strict=True))

    watched.page.select_option('[data-axis="seed"]', "")
    assert shown()["robust-accuracy · 0.5"] == "step 0: ≤ 0.25 (seed 0), ≤ 0.25 (seed 1)"
    assert shown()["energy"] == "step 0: 2 (seed 0), 2 (seed 1)"
    watched.page.select_option('[data-axis="seed"]', "1")
    assert shown() == {
        "energy": "step 0: 2 +0.1 −0",
        "stable-rank · first": "step 0: 3 +0 −0.25",
        "stable-rank · exact": "step 0: 1.5 ± 1e−9",
        "collaboration · a:co_correlation": "step 0: 0.5 ± 0.01",
        "loss · mean": "step 0: 0.75",
        "robust-accuracy · 0.5": "step 0: ≤ 0.25",
        "cluster-radius · certified": "step 0: ≥ 0.125",
    }
    assert not watched.complaints
    watched.context.close()


def test_a_figure_is_enlarged_and_closed(shared: Watched) -> None:
    shared.drawn(LEFT).locator("[data-enlarge]").click()
    shared.page.wait_for_selector("#large[open] svg")
    shared.page.keyboard.press("Escape")
    shared.page.wait_for_selector("#large:not([open])", state="attached")


def luminance(page: Any, selector: str, style: str) -> float:
    colour = page.locator(selector).first.evaluate(f"e => getComputedStyle(e).{style}")
    red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
    return 0.3 * red + 0.59 * green + 0.11 * blue


def test_dark_follows_the_system_and_the_button(chromium: Any, report: Path) -> None:
    watched = Watched(chromium, report, color_scheme="dark")
    page = watched.page
    assert luminance(page, "body", "backgroundColor") < 60 < 180 < luminance(page, "body", "color")
    labels = watched.drawn(LEFT).locator(".role-axis-label text")
    assert int(labels.first.get_attribute("fill")[1:3], 16) > 120
    page.click("#theme")
    assert luminance(page, "body", "backgroundColor") > 200
    watched.drawn(LEFT)
    assert int(labels.first.get_attribute("fill")[1:3], 16) < 120
    assert page.get_attribute("#theme", "aria-pressed") == "false"
    page.reload()
    assert luminance(page, "body", "backgroundColor") > 200
    watched.context.close()


CONTRASTS = """all => {
  const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const parts = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((v) => linear(v / 255));
  const light = (colour) => parts(colour).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
  };
  return all.filter((e) => e.offsetParent).map((e) => {
    const [more, less] = [light(getComputedStyle(e).color), light(ground(e))].sort((a, b) => b - a);
    return (more + 0.05) / (less + 0.05);
  });
}"""  # as WCAG 2 defines it


def test_verdicts_can_be_read_in_both_colours(chromium: Any, report: Path) -> None:
    for scheme in ("light", "dark"):
        watched = Watched(chromium, report, color_scheme=scheme)
        contrasts = watched.page.locator(".badge, .chip, .muted, .numbers").evaluate_all(CONTRASTS)
        assert len(contrasts) > 10
        assert min(contrasts) >= 4.5, scheme
        watched.context.close()


def test_everything_can_be_reached_by_keyboard(chromium: Any, report: Path) -> None:
    watched = Watched(chromium, report)
    page = watched.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.focus('.toggle[data-verdict="holds"]')
    before = page.locator(".finding:visible").count()
    page.keyboard.press("Space")
    assert page.locator(".finding:visible").count() < before
    assert page.locator('.toggle[data-verdict="holds"]').get_attribute("aria-pressed") == "false"
    unnamed = page.locator("button, select, input, a[href], [role=img]").evaluate_all(
        "all => all.filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length)).length"
    )
    assert unnamed == 0
    watched.context.close()


def test_a_telephone_needs_no_sideways_scrolling(chromium: Any, report: Path) -> None:
    watched = Watched(chromium, report, viewport=NARROW)
    card = watched.drawn(LEFT)
    watched.page.evaluate("document.querySelector('#browser-grid').add(new Option('a long name '.repeat(9)))")
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    assert card.locator(".drawing svg").bounding_box()["width"] <= NARROW["width"]
    watched.context.close()


def test_of_very_many_charts_the_others_wait_for_a_click(chromium: Any, tmp_path: Path) -> None:
    study = own_study()
    records = {
        point.trial.id: [
            Record(point.trial.id, 0, 0, "feature-coefficients", f"{neuron}:{feature}", float(neuron), None)
            for neuron in range(10)
            for feature in range(4)
        ]
        for point in study.points
    }
    publish(tmp_path, study, records)
    watched = Watched(chromium, write_report(tmp_path, tmp_path / "report.html"))
    charts, more = (
        watched.page.locator("#browser-view .chart"),
        watched.page.get_by_role("button", name="Show the other"),
    )
    assert charts.count() == 24
    assert more.text_content() == "Show the other 16 charts"
    more.click()
    assert charts.count() == 40
    assert more.count() == 0
    assert not watched.complaints
    watched.context.close()
