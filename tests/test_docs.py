"""README and docs stay true: their examples run, and the names, files and numbers they mention exist."""

from __future__ import annotations

import ast
import contextlib
import doctest
import inspect
import io
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import undertow
from undertow.config.grid import StudyConfig
from undertow.config.trial import validate
from undertow.studies import STUDIES, find

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "undertow"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)

_FOR_EVERYONE = ("core",)


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def promised(code: str) -> list[str]:
    """The lines that a block's comments say it prints: after ``print(…)``, and comments on lines of their own."""
    return re.findall(r"^(?:print\(.*\)  )?# (.*)$", code, re.MULTILINE)


def agree(printed: str, comment: str) -> bool:
    """Equal words, and numbers that differ by no more than another processor's rounding makes of a training run."""
    ours, theirs = (re.split(r"(-?\d+\.\d+)", line.strip()) for line in (printed, comment))
    if len(ours) != len(theirs) or ours[::2] != theirs[::2]:
        return False
    pairs = zip(map(float, ours[1::2]), map(float, theirs[1::2]), strict=True)
    return all(abs(a - b) <= max(0.02, 0.05 * abs(b)) for a, b in pairs)


def test_numbers_agree_to_a_few_percent_and_words_exactly() -> None:
    assert agree("ϱ = 0.93, S = 18.0", "ϱ = 0.92, S = 18.5")
    assert not agree("ϱ = 0.93, S = 18.0", "ϱ = 0.93, S = 21.0")
    assert not agree("0.93 converged", "0.93 exact")


def test_the_readme_prints_what_it_says() -> None:
    session: dict[str, object] = {}
    with torch.random.fork_rng(devices=[]):
        for code in blocks("README.md", "python"):
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(code, "README.md", "exec"), session)
            printed, comments = output.getvalue().splitlines(), promised(code)
            assert len(printed) == len(comments), f"{code}\nprinted\n{output.getvalue()}"
            for line, comment in zip(printed, comments, strict=True):
                assert agree(line, comment), f"README.md says {comment!r}, but this is printed: {line!r}"


def test_every_example_of_the_api_page_gives_what_it_shows() -> None:
    session: dict[str, object] = {}
    runner = doctest.DocTestRunner()
    report = io.StringIO()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for number, code in enumerate(blocks("docs/api.md", "python"), start=1):
            example = doctest.DocTestParser().get_doctest(code, session, f"block {number}", "docs/api.md", 0)
            runner.run(example, out=report.write, clear_globs=False)
            session = example.globs
    assert runner.summarize(verbose=False).failed == 0, report.getvalue()
    assert runner.tries > 40  # an empty page passes every test


def test_the_api_page_has_every_public_name_and_no_other() -> None:
    headings = re.findall(r"^### `(\w+)`$", (ROOT / "docs/api.md").read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(undertow.__all__)


@pytest.mark.parametrize("name", [name for name in undertow.__all__ if name != "__version__"])
def test_the_api_page_gives_signatures_as_they_are(name: str) -> None:
    """Names, order and defaults; an … at the end leaves out what another name's signature has."""
    section = (ROOT / "docs/api.md").read_text().split(f"### `{name}`\n")[1].split("\n### ")[0]
    shown = re.search(rf"^`{name}\((.*?)\)`", section, re.MULTILINE | re.DOTALL)
    assert shown or isinstance(getattr(undertow, name), type), (
        f"docs/api.md, {name}: a function has a signature"
    )
    if shown is None:
        return
    options, _, _ = shown[1].partition(", …")
    (written,) = ast.parse(f"def f({options}): pass").body
    assert isinstance(written, ast.FunctionDef)
    (actual,) = ast.parse(f"def f({_options_of(getattr(undertow, name))}): pass").body
    assert isinstance(actual, ast.FunctionDef)
    told, whole = ast.unparse(written.args), ast.unparse(actual.args)
    assert whole.startswith(told) if "…" in shown[1] else told == whole


def _options_of(function: Callable[..., object]) -> str:
    """A signature without its types."""
    signature = inspect.signature(function)
    plain = [
        each.replace(annotation=inspect.Parameter.empty, default=_Shown(each.default))
        if each.default is not inspect.Parameter.empty
        else each.replace(annotation=inspect.Parameter.empty)
        for each in signature.parameters.values()
    ]
    listed = signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)
    return str(listed)[1:-1]


class _Shown:
    """A default as one writes it: a dtype by its name."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        return str(self.value) if isinstance(self.value, torch.dtype) else repr(self.value)


def test_the_studies_of_the_readme_are_those_of_the_command_line() -> None:
    """Each has its row, with its page and the times that `undertow studies` says."""
    rows = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("| [`")]
    assert len(rows) == len(STUDIES)
    for name, row in zip(STUDIES, rows, strict=True):
        costs = find(name).costs
        times = [
            re.search(r"about (\d+) (s|min)(?:utes)? on two cores", costs[scale])
            for scale in ("smoke", "laptop")
        ]
        assert all(times), f"{name}: {costs}"
        said = " | ".join(" ".join(time.groups()) for time in times if time)
        assert row.startswith(f"| [`{name}`](docs/studies/{name}.md) | ")
        assert row.endswith(f" | {said} |"), (
            f"README.md, table of studies, {name}: `undertow studies` says {said}"
        )


def test_the_readmes_study_file_is_a_study() -> None:
    (text,) = blocks("README.md", "toml")
    study = validate(StudyConfig, tomllib.loads(text))
    assert len(study.points) == 6
    assert len(study.groups) == 2


def test_the_commands_of_the_readme_exist() -> None:
    from undertow.cli.app import app

    code = "\n".join(_code(ROOT / "README.md"))
    mentioned = set(re.findall(r"^undertow (data \w+|[a-z]+)\b", code, re.MULTILINE))
    known = {name for name in app if not name.startswith("-")}
    known |= {f"data {name}" for name in app["data"] if not name.startswith("-")}
    assert len(mentioned) > 8
    assert mentioned <= known, f"README.md mentions {mentioned - known}"


@each_page
def test_links_and_files_exist(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors, (
        f"{page.name} links to headings that it has not"
    )
    for name in re.findall(r"`((?:src|tests|docs|benchmarks)/[\w/.-]+)`", text):
        assert (ROOT / name).exists(), f"{page.name} names {name}"
    for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)*/[a-z_]+\.py)`", text):
        assert (SOURCE / name).exists() or (ROOT / name).exists(), f"{page.name} names {name}"


def test_the_layers_of_the_architecture_page_are_those_of_the_imports() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \|.*\| ([^|]*) \|$", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE
    )
    documented = {package: set(re.findall(r"`(\w+)`", uses)) for package, uses in rows}
    imported = _imports()
    assert documented.keys() == imported.keys()
    for package, uses in imported.items():
        assert documented[package] == uses, f"docs/architecture.md, `{package}` uses {sorted(uses)}"


def _imports() -> dict[str, set[str]]:
    """Package → other packages of undertow that it imports at run time, late imports included."""
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE)
        package = place.parts[0].removesuffix(".py")
        if package in ("__init__", "__main__", *_FOR_EVERYONE):
            continue
        names = found.setdefault(package, set())
        tree = ast.parse(path.read_text())
        for branch in ast.walk(tree):
            if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test):
                branch.body = []
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "undertow":
                parts = (node.module or "").split(".")
                names |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        names -= {package, *_FOR_EVERYONE, "__version__"}
    return found


def _code(page: Path) -> list[str]:
    """Everything set as code: fenced blocks without a language, and words in backticks."""
    text = page.read_text()
    fenced = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [
        *fenced,
        *re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)),
    ]
