"""The command line. Everything heavy is imported by the command that needs it: ``--help`` answers at once.

Exit codes: 0 done; 1 something failed or is incomplete; 2 bad usage or configuration; 130 interrupted, with
the command to go on printed.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Parameter

from undertow import __version__
from undertow.core.errors import ConfigError, UndertowError

__all__ = ["app", "main"]

# Options that several commands have, each explained once.
Runs = Annotated[Path, Parameter(help="The folder of the runs.")]
Json = Annotated[bool, Parameter(help="Print for machines.")]
EngineName = Annotated[
    Literal["auto", "here", "processes", "dask"],
    Parameter(
        help="In this process, in local processes, or on a Dask cluster; "
        "auto takes one process on a GPU, else all cores."
    ),
]
Workers = Annotated[int | None, Parameter(help="Number of processes; by default the number of cores.")]
Address = Annotated[
    str | None,
    Parameter(help="The Dask scheduler, e.g. tcp://host:8786; without it dask starts a local cluster."),
]
Weights = Annotated[
    bool, Parameter(help="Keep the trained networks; --no-weights keeps only what was measured of them.")
]

Offline = Annotated[
    bool, Parameter(negative=(), help="Download nothing: what is not on this machine is an error.")
]

app = App(
    name="undertow",
    help="Measures the implicit bias of gradient descent toward fragile or robust networks.",
    version=__version__,
    suppress_keyboard_interrupt=False,
    help_epilogue="Exit codes: 0 done, 1 failed or incomplete, 2 bad usage or settings, 130 interrupted.",
)
data_app = App(name="data", help="Data sets: what is here, and how to get the rest.")
app.command(data_app)


@app.command
def studies(*, json: Json = False) -> int:
    """What can be reproduced, with what it costs."""
    from undertow.cli.show import print_studies

    return print_studies(as_json=json)


@app.command
def reproduce(
    study: str,
    *,
    scale: Literal["smoke", "laptop", "paper"] = "laptop",
    variant: str = "paper",
    part: tuple[str, ...] = (),
    seeds: int | None = None,
    first_seed: int | None = None,
    runs: Path = Path("runs"),
    engine: EngineName = "auto",
    workers: Workers = None,
    address: Address = None,
    weights: Weights = True,
    offline: Offline = False,
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
    from undertow.cli.sweeps import on_seeds, run_studies
    from undertow.studies import find

    grids = on_seeds(runs, find(study).grids(scale, variant, parts=part), count=seeds, first=first_seed)
    return run_studies(
        runs,
        list(grids),
        engine=engine,
        workers=workers,
        address=address,
        keep_weights=weights,
        offline=offline,
    )


@app.command
def run(
    file: Path,
    *overrides: Annotated[str, Parameter(allow_leading_hyphen=True)],
    runs: Runs = Path("runs"),
    engine: EngineName = "auto",
    workers: Workers = None,
    address: Address = None,
    weights: Weights = True,
    offline: Offline = False,
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
    from undertow.cli.sweeps import run_studies
    from undertow.config.study_files import load_study

    study = load_study(file, overrides)
    return run_studies(
        runs,
        [study],
        engine=engine,
        workers=workers,
        address=address,
        keep_weights=weights,
        offline=offline,
    )


@app.command
def resume(
    runs: Runs,
    *,
    engine: EngineName = "auto",
    workers: Workers = None,
    address: Address = None,
    weights: Weights = True,
    offline: Offline = False,
) -> int:
    """Go on with every study in a folder; what is finished and whole is kept, what is damaged computed again."""
    from undertow.cli.sweeps import run_studies
    from undertow.store.tolerant import ReadableStore

    store = ReadableStore(runs)
    stored = store.studies()
    code = run_studies(
        runs,
        [each.config for each in stored],
        engine=engine,
        workers=workers,
        address=address,
        keep_weights=weights,
        offline=offline,
    )
    return code or (1 if store.problems else 0)


@app.command
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


@app.command
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


@app.command
def show(runs: Runs, *, json: Json = False) -> int:
    """What is in a folder: studies and how far they are, curves, verdicts, what failed or is damaged."""
    from undertow.cli.overview import print_store

    return print_store(runs, as_json=json)


@app.command
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


@app.command
def tour() -> int:
    """A first look: three networks watched, something of every study run, and one report. Needs no download."""
    import importlib

    code: int = importlib.import_module("undertow.cli.tour").main()
    return code


@data_app.command(name="list")
def data_list(*, json: Json = False) -> int:
    """Every data set known by name, and whether it is here."""
    from undertow.cli.data import print_list

    return print_list(as_json=json)


@data_app.command(name="fetch")
def data_fetch(*names: str, offline: Offline = False) -> int:
    """Make data sets whole, downloading what is missing.

    Parameters
    ----------
    names: str
        Names from `undertow data list`.
    """
    from undertow.cli.data import fetch_all

    if not names:
        raise ConfigError("say which data sets to fetch; `undertow data list` names them.")
    return fetch_all(names, offline=offline)


@data_app.command(name="check")
def data_check(*names: str) -> int:
    """Verify the checksums of data sets; without names, of those that are here.

    Parameters
    ----------
    names: str
        Names from `undertow data list`.
    """
    from undertow.cli.data import check_all

    return check_all(names)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: run a command and exit with its code."""
    sys.exit(_call(sys.argv[1:] if arguments is None else list(arguments)))


def _call(arguments: list[str]) -> int:
    from rich.console import Console

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that is no text is still printed
            stream.reconfigure(errors="backslashreplace")
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        code = app(arguments, exit_on_error=False, print_error=True, result_action="return_value")
    except CycloptsError:
        return 2
    except UndertowError as error:
        errors.print(str(error), style="red", markup=False)
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt:
        errors.print("stopped.")
        return 130
    except BrokenPipeError:  # the reader of our output has had enough
        sys.stderr.close()
        return 0
    except MemoryError as error:
        about = f" ({error})" if str(error) else ""
        errors.print(
            f"The memory is used up{about}: take less data or smaller networks, close what else is running, or use "
            "a machine with more of it.",
            style="red",
            markup=False,
        )
        return 1
    except OSError as error:
        names = ", ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
        errors.print(
            f"The system refuses {names or 'something'}: {error.strerror or error}.",
            style="red",
            markup=False,
        )
        return 1
    return code if isinstance(code, int) else 0
