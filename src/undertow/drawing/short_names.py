"""Long names of modules, shortened so that they still tell one module from another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["short_names"]

_FEWEST = 5  # letters of a part: two at each end and the dots between


def short_names(names: Sequence[str], limit: int) -> list[str]:
    """Each of different names in about ``limit`` letters, and still different.

    Left out are the modules around it, as long as half as many letters more suffice; else the middle of the longest
    parts between points, as numbers of blocks and ends of names are what differs.

    >>> short_names(["encoder.layers.11.attention.query", "encoder.layers.12.attention.query", "head"], 20)
    ['…11.attention.query', '…12.attention.query', 'head']
    >>> short_names(["a_block.the_projection_of_queries", "b_block.the_projection_of_queries"], 20)
    ['a_block.the_pr…eries', 'b_block.the_pr…eries']
    """
    ways: list[tuple[Callable[[str, int], str], int]] = [
        *((_end, letters) for letters in range(limit, limit + limit // 2)),
        *((_middles, letters) for letters in range(limit, 4 * limit)),
    ]
    for way, letters in ways:
        found = [name if len(name) <= letters else way(name, letters) for name in names]
        if len(set(found)) == len(set(names)) and max(map(len, found)) <= letters + (way is _middles) * limit:
            return found
    return list(names)


def _end(name: str, limit: int) -> str:
    """The last parts, as many as fit, and the last one in any case."""
    parts = name.split(".")
    while len(parts) > 1 and len(".".join(parts)) >= limit:
        parts = parts[1:]
    return f"…{'.'.join(parts)}"


def _middles(name: str, limit: int) -> str:
    parts = name.split(".")
    lengths = [len(part) for part in parts]
    while sum(lengths) + len(parts) - 1 > limit and max(lengths) > _FEWEST:
        lengths[lengths.index(max(lengths))] -= 1
    return ".".join(map(_without_middle, parts, lengths))


def _without_middle(word: str, letters: int) -> str:
    after = (letters - 1) // 2
    return word if letters >= len(word) else f"{word[: letters - 1 - after]}…{word[len(word) - after :]}"
