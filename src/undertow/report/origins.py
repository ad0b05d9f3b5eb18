"""Where the numbers of a report come from: code, machines, data, cost, and the command that makes them again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from undertow.config.grid import StudyConfig
from undertow.config.study_names import seed_options

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
        code, data, cost = each["code"], each["data"], each["cost"]
        found["code"][f"undertow {code['undertow']}, source {code['source'][:12]}"] = None
        found["packages"][", ".join(f"{name} {version}" for name, version in each["packages"].items())] = None
        found["machines"][_machine(each["hardware"])] = None
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


def rerun(config: StudyConfig, *, runs: str, known: bool, parts: Sequence[str] = ()) -> str:
    """The command that makes the trials of a study again, or of some of its parts.

    A study that undertow knows is named; one's own is run from the file that the report shows.
    """
    if known:
        words = ["reproduce", config.name, "--scale", config.scale, "--variant", config.variant]
        words += [word for part in parts for word in ("--part", part)]
        words += seed_options(config.seed_set)
    else:
        words = ["run", f"{config.name}.toml"]
    return shlex.join(["undertow", *words, "--runs", runs])


def study_file(config: StudyConfig) -> str:
    """A study's configuration as the TOML file that ``undertow run`` takes."""
    document = config.model_dump(mode="json", exclude_defaults=True)
    tables = {name: document.pop(name) for name in list(document) if isinstance(document[name], dict)}
    lines = [f"{name} = {_toml(value)}" for name, value in document.items()]
    for name, table in tables.items():
        lines += ["", f"[{name}]"]
        # A grid's axes may be paths, whose dots would open tables.
        lines += [f"{_key(key)} = {_toml(value)}" for key, value in table.items() if value is not None]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _toml(name)


def _toml(value: Any) -> str:
    """A value of JSON in TOML.

    >>> _toml({"name": "he", "list": [1, 0.5, True]})
    '{name = "he", list = [1, 0.5, true]}'
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else c for c in escaped) + '"'
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if isinstance(value, dict):
        pairs = (f"{_key(key)} = {_toml(each)}" for key, each in value.items() if each is not None)
        return "{" + ", ".join(pairs) + "}"
    return repr(value)


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
