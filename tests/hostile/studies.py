"""Study files that nobody meant to write: valid ones with something changed, and things that were never valid."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from undertow.measures import MEASURES

_DATA: list[dict[str, Any]] = [
    {"name": "kou-mixture", "n": 6, "d": 12, "sigma_p": 0.3},
    {"name": "d-binary", "n": 12, "d": 10, "k": 2},
    {"name": "axis-clusters", "n": 12, "d": 10, "k": 4},
    {"name": "slabs", "n": 12, "d": 5},
    {"name": "lower-bound", "n": 12, "d": 8, "corners": 4},
    {"name": "digits", "limit": 12},
    {"name": "digits", "limit": 12, "task": "parity", "normalise": "unit-norm"},
]
_MODELS: list[dict[str, Any]] = [
    {"name": "two-layer", "width": 6, "init": {"name": "gaussian", "std": 0.1}},
    {"name": "two-layer", "width": 6, "bias": "both", "head": "mean", "activation": "leaky-relu"},
    {"name": "mlp", "widths": [5, 4]},
    {"name": "prelu", "width": 6},
    {"name": "grouped-centres", "group": 1},
    {"name": "nearest"},
    {"name": "resnet", "image": [1, 8, 8], "channels": [2, 3]},
]
_TRAINING: list[dict[str, Any]] = [
    {"learning_rate": 0.05, "epochs": 2},
    {"optimizer": "sgd", "batch_size": 2, "learning_rate": 0.05, "epochs": 2, "loss": "logistic"},
    {"optimizer": "adam", "learning_rate": 0.01, "epochs": 1, "dtype": "float64", "loss": "bce"},
    {"learning_rate": 0.05, "epochs": 0},
]
_NEEDED: dict[str, dict[str, Any]] = {
    "collaboration": {"seam": "hidden"},
    "printed-collaboration": {"seam": "hidden"},
    "off-manifold": {"dimension": 2},
}
_ODD_TEXT = [
    "", " ", "\u0000", "é", "e\u0301", "日本", "\u202ex", "\ud7ff", "🌊" * 9, "a" * 5000, "../../etc/passwd", "%s%n",
    "~nobody-here/x.csv", "-inf", "true", "[bold]x[/]", "\x1b[31mred", "a.b.c", "/dev/zero", "\r\n", "\ufeff",
    "x/" * 3000,
]  # fmt: skip
_ODD_NUMBERS = [
    0, -1, 1, 2, 3, 7, 64, 65, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 10**9, 10**9 + 1, 10**30, 10**400, -(10**30),
    0.0, -0.0, 1e-320, 1e-30, 0.5, 1.5, -2.5, 1e9, 1e30, 1e300, 1.7e308, float("nan"), float("inf"), float("-inf"),
]  # fmt: skip
_MILD_WORDS = [
    "relu", "tanh", "gelu", "linear", "logistic", "cross-entropy", "exponential", "adam", "sgd", "hidden", "head",
    "none", "both", "he", "end", "log", "test", "mnist", "centred", "standardised", "parity", *MEASURES,
]  # fmt: skip
_MILD_NUMBERS = [0, 1, 2, 3, 5, 17, 100, 2000, 100_000, 10**9, 0.0, 1e-30, 1e-6, 0.3, 1.0, 50.0, 1e6, 1e30]


def fuzzed_studies(count: int, *, seed: int) -> Iterator[bytes]:
    """``count`` files, the same for the same seed; about a third of them can be run."""
    for number in range(count):
        yield _one(random.Random(f"{seed}/{number}"))


def _one(chance: random.Random) -> bytes:
    kind = chance.random()
    if kind < 0.05:
        return chance.choice(_NEVER_VALID)(chance)
    document = _plausible(chance)
    if kind < 0.3:
        document = _nudged(document, chance)
    elif kind < 0.75:
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            document = _changed(document, chance)
    text = toml(document, chance).encode("utf-8", "surrogatepass")
    if kind > 0.85:
        for _ in range(chance.choice([1, 1, 2, 8])):
            text = _spoilt(text, chance)
    return text


def _plausible(chance: random.Random) -> dict[str, Any]:
    """A study that looks right: its parts may still not go together."""
    names = chance.sample(sorted(MEASURES), chance.choice([1, 1, 2, 3]))
    measures: list[Any] = [
        {"name": name, **_NEEDED.get(name, {})} if name in _NEEDED else name for name in names
    ]
    probe: dict[str, Any] = {
        "measures": measures,
        "every": chance.choice(["epoch", "log", "end", "ends", 1, 3]),
    }
    if chance.random() < 0.2:
        probe |= {"split": chance.choice(["train", "test", "all"]), "limit": chance.choice([1, 2, 5, 100])}
    if chance.random() < 0.1:
        probe["examples"] = 2
    likely = chance.random() < 0.7
    document: dict[str, Any] = {
        "data": dict(chance.choice(_DATA)),
        "model": copy.deepcopy(chance.choice(_MODELS[:3] if likely else _MODELS)),
        "training": dict(chance.choice(_TRAINING)),
        "probe": probe,
    }
    if likely and document["data"]["name"] == "digits" and "task" not in document["data"]:
        document["training"]["loss"] = "cross-entropy"
    if chance.random() < 0.5:
        axis = chance.choice(
            [("seed", [0, 1]), ("learning_rate", [0.01, 0.1]), ("model.width", [3, 5]), ("n", [4, 9])]
        )
        document["grid"] = {axis[0]: axis[1]}
    return document


def _nudged(document: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """One setting at another value of its kind: most likely still a study."""
    document = copy.deepcopy(document)
    leaves = [(place, key) for place, key in _places(document) if isinstance(place[key], int | float | str)]
    place, key = chance.choice(leaves)
    place[key] = chance.choice(_MILD_WORDS if isinstance(place[key], str) else _MILD_NUMBERS)
    return document


def _changed(document: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    document = copy.deepcopy(document)
    place, key = chance.choice(list(_places(document)))
    match chance.randrange(8):
        case 0:
            del place[key]
        case 1:
            if isinstance(place, dict):
                place[_typo(key, chance)] = place.pop(key)
        case 2:
            if isinstance(place, dict):
                place[chance.choice([*_ODD_TEXT, "name", "every", "limit", "only"])] = _odd(chance)
        case 3:
            place[key] = [place[key], place[key]]
        case 4:
            other, name = chance.choice(list(_places(document)))
            place[key], other[name] = other[name], place[key]
            return document if _depth(document) < 60 else {}
        case _:
            place[key] = _odd(chance)
    return document


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(pairs):
        yield value, key
        yield from _places(inner)


def _depth(value: Any, seen: tuple[int, ...] = ()) -> int:
    if id(value) in seen:
        return 1000  # a table inside itself cannot be written down
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max((_depth(each, (*seen, id(value))) for each in inner), default=0)


def _odd(chance: random.Random, depth: int = 0) -> Any:
    match chance.randrange(8 if depth < 3 else 3):
        case 0 | 1:
            return chance.choice(_ODD_NUMBERS)
        case 2:
            return chance.choice(_ODD_TEXT)
        case 3:
            return chance.choice([True, False])
        case 4:
            return [_odd(chance, depth + 1) for _ in range(chance.choice([0, 1, 2, 5]))]
        case 5:
            return {
                chance.choice(["name", "a", "only", "every", "limit"]): _odd(chance, depth + 1)
                for _ in range(2)
            }
        case 6:
            return chance.choice(
                [*(each["name"] for each in (*_DATA, *_MODELS)), *MEASURES, "relu", "he", "test"]
            )
        case _:
            return {"name": chance.choice([*MEASURES, "he", "gaussian", "digits", "table"]), "path": "x.csv"}


def _typo(key: str, chance: random.Random) -> str:
    if not key:
        return "x"
    at = chance.randrange(len(key))
    return chance.choice(
        [key[:at] + key[at + 1 :], key[:at] + "x" + key[at:], key.upper(), key + ".x", key[::-1]]
    )


def _spoilt(text: bytes, chance: random.Random) -> bytes:
    lines = text.splitlines(keepends=True) or [b""]
    at, line = chance.randrange(len(text) + 1), chance.randrange(len(lines))
    match chance.randrange(7):
        case 0:
            return text[:at] + bytes([chance.randrange(256)]) + text[at + 1 :]
        case 1:
            return text[:at]
        case 2:
            return b"".join([*lines, lines[line]])
        case 3:
            return b"".join([*lines[:line], *lines[line + 1 :]])
        case 4:
            return (
                text[:at]
                + chance.choice([b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"[[", b"'''", b"=", b".", b"\r"])
                + text[at:]
            )
        case 5:
            chance.shuffle(lines)
            return b"".join(lines)
        case _:
            return text[:at] + text[at:][:40] * chance.choice([2, 50]) + text[at:]


def _nested(chance: random.Random) -> bytes:
    depth = chance.choice([50, 200, 900, 5000, 100_000])
    begin, end = chance.choice([("[", "]"), ("{a=", "}")])
    return f"x = {begin * depth}1{end * depth if chance.random() < 0.7 else ''}".encode()


def _deep_key(chance: random.Random) -> bytes:
    key = chance.choice([".", " . ", ' ."b".']).join(["a"] * chance.choice([30, 100, 3000, 200_000]))
    return (f"[{key}]\n" if chance.random() < 0.5 else f"{key} = 1\n").encode()


def _noise(chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice([0, 1, 10, 1000, 100_000]))


def _many(chance: random.Random) -> bytes:
    line = chance.choice(["k{} = {}", "[t{}.a{}]", "[[a]]\nb{}={}", "x{}.y{}.z = 1"])
    return "\n".join(line.format(i, i) for i in range(chance.choice([100, 5000, 20_000]))).encode()


def _large(chance: random.Random) -> bytes:
    return chance.choice(
        [
            b"seed = " + b"9" * chance.choice([19, 20, 4300, 4301, 500_000]),
            b"seed = 0x" + b"f" * chance.choice([16, 17, 300_000]),
            b"name = '" + b"x" * 900_000 + b"'",
            b"# " + b"x" * 3_000_000,
            b"[grid]\nseed = [" + b"1, " * 200_000 + b"]",
            b"seed = 1e" + b"9" * 300_000,
            b"seed = 1_" * 1000,
        ]
    )


_NEVER_VALID: list[Callable[[random.Random], bytes]] = [_nested, _deep_key, _noise, _many, _large]


def toml(document: dict[str, Any], chance: random.Random | None = None) -> str:
    """The document in TOML; in a section of its own or inline, as chance will have it."""
    plain = {key: value for key, value in document.items() if not isinstance(value, dict)}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in document.items():
        if isinstance(value, dict):
            if chance is not None and chance.random() < 0.1:
                lines.insert(len(plain), f"{_key(key)} = {_value(value)}")
            else:
                lines.append(f"[{_key(key)}]")
                lines += [f"{_key(inner)} = {_value(each)}" for inner, each in value.items()]
    return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    bare = key and all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in key)
    return key if bare else json.dumps(key, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return str(value).lower()
