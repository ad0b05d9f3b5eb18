"""The commands on data sets. Each imports what it needs when it is called, as all commands do (`cli/app.py`)."""

from __future__ import annotations

from cyclopts import App

from undertow.cli.run_options import Json, Offline
from undertow.core.errors import ConfigError

__all__ = ["data_app"]

data_app = App(name="data", help="Data sets: what is here, and how to get the rest.")


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
