"""Where the numbers of a report come from: code, machines, data, cost, and the command that makes them again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tomli_w

from undertow.config.study_names import seed_options
from undertow.store.stored_study import StoredStudy

__all__ = ["Origin", "origin", "rerun", "spoken_duration", "study_file"]


@dataclass(frozen=True)
class Origin:
    """What the trials of a grid say about their making; each tuple holds every value that occurs, once."""

    code: tuple[str, ...]
    packages: tuple[str, ...]
    machines: tuple[str, ...]
    data: tuple[str, ...]
    seconds: float
    restarts: int


def origin(provenances: Iterable[Mapping[str, Any]]) -> Origin:
    """The provenance of many trials, put together."""
    found: dict[str, dict[str, None]] = {name: {} for name in ("code", "packages", "machines", "data")}
    seconds, restarts, groups = 0.0, 0, set()
    for each in provenances:
        code, data, cost = each["code"], each.get("data"), each["cost"]
        found["code"][f"undertow {code['undertow']}, source {code['source'][:12]}"] = None
        found["packages"][", ".join(f"{name} {version}" for name, version in each["packages"].items())] = None
        found["machines"][_machine(each["hardware"])] = None
        if data is not None:  # of somebody's own loop undertow knows no data
            found["data"][f"{data['name']}, {data['samples']:,} samples, SHA-256 {data['checksum']}"] = None
        seconds += float(cost["seconds"])
        if each["group"]["id"] not in groups:  # a group restarts as one
            groups.add(each["group"]["id"])
            restarts += int(cost["restarts"])
    return Origin(**{name: tuple(each) for name, each in found.items()}, seconds=seconds, restarts=restarts)


def _machine(hardware: Mapping[str, Any]) -> str:
    gpu = f"{hardware['gpu']} (CUDA {hardware.get('cuda')}), " if "gpu" in hardware else ""
    processor, system = hardware.get("processor", "unknown processor"), hardware.get("system", "")
    return f"{gpu}{processor}, {hardware.get('cores', '?')} cores, {system}"


def rerun(study: StoredStudy, *, runs: str, known: bool, parts: Sequence[str] = ()) -> str:
    """The command that makes the trials of a study again, or of some of its parts.

    A study that undertow knows is named; one's own is run from the file that the report shows.
    """
    if known:
        words = ["reproduce", study.name, "--scale", study.scale, "--variant", study.variant]
        words += [word for part in parts for word in ("--part", part)]
        words += seed_options(study.seed_set)
    else:
        words = ["run", f"{study.name}.toml"]
    return shlex.join(["undertow", *words, "--runs", runs])


def study_file(settings: Mapping[str, Any]) -> str:
    """A study's settings as the TOML file that ``undertow run`` takes; what is None has no place in TOML.

    >>> print(study_file({"name": "own", "model": {"width": 8, "outputs": None}, "grid": {"model.width": [8, 16]}}))
    name = "own"
    <BLANKLINE>
    [model]
    width = 8
    <BLANKLINE>
    [grid]
    "model.width" = [
        8,
        16,
    ]
    <BLANKLINE>
    """
    return tomli_w.dumps(_without_none(settings))


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list | tuple) else value


def spoken_duration(seconds: float) -> str:
    """A duration as one says it.

    >>> [spoken_duration(each) for each in (0.3, 75, 7300, 200000)]
    ['under a second', '75 seconds', '2.0 hours', '2.3 days']
    """
    if seconds < 1:
        return "under a second"
    for name, length, until in (
        ("second", 1, 100),
        ("minute", 60, 100),
        ("hour", 3600, 48),
        ("day", 86400, 1e9),
    ):
        amount = seconds / length
        if amount < until:
            digits = 0 if amount >= 10 or length == 1 else 1
            spoken = f"{amount:.{digits}f}"
            return f"{spoken} {name}{'' if spoken == '1' else 's'}"
    raise AssertionError("a duration is finite")
