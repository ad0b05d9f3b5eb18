"""The commands. Each imports what it needs when it is called: ``--help`` answers in a quarter of a second.

Exit codes: 0 done; 1 something failed or is incomplete; 2 bad usage or configuration; 130 interrupted, with
the command to go on printed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Group, Parameter

from undertow import __version__
from undertow.cli.data_commands import data_app
from undertow.cli.run_options import AS_PUBLISHED, AS_USUAL, HowToRun, Json, OwnTable, Runs, Several
from undertow.cli.uncollected import uncollected
from undertow.core.errors import ConfigError

__all__ = ["app"]

app = App(
    name="undertow",
    help="Measures the implicit bias of gradient descent toward fragile or robust networks.",
    version=__version__,
    suppress_keyboard_interrupt=False,
    help_epilogue="Exit codes: 0 done, 1 failed or incomplete, 2 bad usage or settings, 130 interrupted.",
    default_parameter=Parameter(negative=()),
)
STUDIES, RESULTS, NETWORKS, OPTIONS = (
    Group.create_ordered(name) for name in ("Studies", "Their results", "Networks and data", "Options")
)
app["--help"].group = app["--version"].group = (OPTIONS,)
data_app.group, data_app.sort_key = (NETWORKS,), 10
app.command(data_app)


@app.command(group=STUDIES, sort_key=0)
def tour() -> int:
    """A first look: three networks watched, something of every study run, and one report. Needs no download."""
    from undertow.cli.tour import main

    return main()


@app.command(group=STUDIES, sort_key=1)
def studies(study: str | None = None, /, *, json: Json = False) -> int:
    """What can be reproduced, with what it costs; of one study, what it asks.

    Parameters
    ----------
    study: str
        A study's name: its parts and its claims are listed.
    """
    from undertow.cli.study_listing import print_studies, print_study

    return print_studies(as_json=json) if study is None else print_study(study, as_json=json)


@app.command(group=STUDIES, sort_key=2)
def reproduce(
    study: str,
    /,
    *,
    scale: Literal["smoke", "laptop", "paper"] = "laptop",
    variant: str = "paper",
    part: Several = (),
    seeds: int | None = None,
    first_seed: int | None = None,
    runs: Path = Path("runs"),
    own: OwnTable = AS_PUBLISHED,
    how: HowToRun = AS_USUAL,
) -> int:
    """Run a study, or go on with it; draw its figures and judge its claims.

    Parameters
    ----------
    study: str
        A name from `undertow studies`.
    scale: Literal["smoke", "laptop", "paper"]
        smoke takes seconds, laptop minutes, paper is the full grid.
    variant: str
        paper follows the text, authors their code.
    part: tuple[str, ...]
        Only these parts of the study; can be given several times.
    seeds: int
        How many seeds each network of the grid has, in place of the study's own number.
    first_seed: int
        The first of them: others than the study's own are a replication, and judged by themselves.
    runs: Path
        The folder of the runs; what is finished there is not computed again.
    """
    with uncollected():
        from undertow.cli.sweeps import on_seeds, run_studies
        from undertow.studies import find

    table = own.settings()
    if table is None:
        grids = find(study).grids(scale, variant, parts=part)
        if own.unlabelled_as is not None:
            from undertow.studies.kit.patients import with_outcome

            grids = with_outcome(grids, own.unlabelled_as)
    else:
        grids = (find(study).grid_on(table, scale, variant),)
        grids[0].points[0].trial.data.build()  # what is wrong with the file is said before anything is begun
        from undertow.cli.own_table import described

        print(described(**table))
    return run_studies(runs, list(on_seeds(runs, grids, count=seeds, first=first_seed)), how)


@app.command(group=STUDIES, sort_key=3)
def run(
    file: Path,
    *overrides: Annotated[str, Parameter(allow_leading_hyphen=True)],
    runs: Runs = Path("runs"),
    how: HowToRun = AS_USUAL,
) -> int:
    """Run a study of your own from a TOML file.

    Settings can be changed: `undertow run study.toml --training.epochs 5 --grid width=16,64`.

    Parameters
    ----------
    file: Path
        The study: sections data, model, training, probe, grid.
    overrides: str
        `--section.field value`, or `--grid axis=v1,v2`.
    """
    with uncollected():
        from undertow.cli.sweeps import run_studies
        from undertow.config.study_files import load_study

    return run_studies(runs, [load_study(file, overrides)], how)


@app.command(group=STUDIES, sort_key=4)
def resume(
    runs: Runs,
    *,
    how: HowToRun = AS_USUAL,
) -> int:
    """Go on with every study in a folder; what is finished and whole is kept, what is damaged computed again."""
    with uncollected():
        from undertow.cli.sweeps import resume_studies

    return resume_studies(runs, how)


@app.command(group=RESULTS, sort_key=5)
def show(runs: Runs, *, json: Json = False) -> int:
    """What is in a folder: studies and how far they are, curves, verdicts, what failed or is damaged."""
    from undertow.cli.overview import print_store

    return print_store(runs, as_json=json)


@app.command(group=RESULTS, sort_key=6)
def live(
    runs: Path, *, host: str = "127.0.0.1", port: int = 8000, token: str | None = None, open: bool = False
) -> int:
    """Follow a folder in the browser: trials, curves as they grow, time left, verdicts. Changes nothing.

    Parameters
    ----------
    runs: Path
        The folder of the runs; it need not exist yet.
    host: str
        The address to listen on; any but this machine's own asks visitors for a token.
    port: int
        The port; 0 takes any that is free.
    token: str
        What visitors must know; without it one is made up where it is needed, and printed.
    open: bool
        Open the page in the browser.
    """
    from undertow.cli.live import serve_page

    return serve_page(runs, host=host, port=port, token=token, open_browser=open)


@app.command(group=RESULTS, sort_key=7)
def claims(runs: Runs, *, against: Path | None = None, json: Json = False) -> int:
    """The verdict on every claim of the studies in a folder, or those that another folder does not share.

    Parameters
    ----------
    against: Path
        A folder of the same studies on other seeds; it may be the same one, where that holds a replication.
    """
    if against is not None:
        from undertow.cli.replications import print_replication

        return print_replication(runs, against, as_json=json)
    from undertow.cli.show import print_claims

    return print_claims(runs, as_json=json)


@app.command(group=RESULTS, sort_key=8)
def report(
    runs: Runs,
    *,
    output: Annotated[Path, Parameter(alias="-o")] = Path("report.html"),
    figures: Literal["svg", "pdf", "png"] | None = None,
) -> int:
    """One HTML file of everything in a folder: verdicts, figures, every network, where each number comes from.

    Parameters
    ----------
    output: Path
        The file to write; it opens offline.
    figures: Literal["svg", "pdf", "png"]
        Also write the figures as files, into the folder figures/ of the runs.
    """
    from undertow.cli.report import make_report

    return make_report(runs, output, figures=figures)


@app.command(group=NETWORKS, sort_key=9)
def measure(
    checkpoint: Path,
    *,
    model: str | None = None,
    data: str,
    label: str | None = None,
    normalise: str | None = None,
    output: str | None = None,
    points: int = 32,
    radii: int = 8,
    seam: Several = (),
    rtol: float = 0.01,
    seconds: float = 60.0,
    json: Json = False,
    html: Path | None = None,
) -> int:
    """Measure one trained network: co-correlation and energies at every seam, ranks, margins, radii.

    Parameters
    ----------
    checkpoint: Path
        A safetensors file of weights, or a folder as transformers writes it.
    model: str
        package.module:function, which builds the network without arguments; it is imported, so it is code that runs.
    data: str
        A name from `undertow data list`, a file (safetensors or NPZ with x and maybe y, or a table: CSV, Parquet,
        NPZ), random:3x32x32 or tokens:16. Other tensors beside x are given to arguments of their names, such as
        attention_mask.
    label: str
        Of a table: the column that holds the classes.
    normalise: str
        What inputs were trained on: unit-norm, centred, mnist or standardised; by default they are taken as they are.
    output: str
        Which output is measured, where the network returns several: a name, or a place counted from 0.
    points: int
        How many samples; the first ones.
    radii: int
        How many of them are attacked for their radii; 0 for none.
    seam: tuple[str, ...]
        Only these seams, from input to output; can be given several times.
    rtol: float
        Bounds the relative error of every Jacobian norm.
    seconds: float
        About how long measuring may take: fewer samples are measured where all would take longer, and that is said.
    html: Path
        Also write a page with the picture; it opens offline.
    """
    from undertow.cli.measure import measure_checkpoint

    if points < 1 or radii < 0 or not 0 < rtol < 1 or not seconds > 0:
        raise ConfigError(
            "points must be 1 or more, radii 0 or more, rtol between 0 and 1, and seconds positive."
        )
    return measure_checkpoint(
        checkpoint,
        model=model,
        data=data,
        label=label,
        normalise=normalise,
        output=output,
        points=points,
        radii=radii,
        seams=seam,
        rtol=rtol,
        limit=seconds,
        as_json=json,
        html=html,
    )
