"""Of all splits together, which points were trained on."""

from __future__ import annotations

from undertow.data.named_data import NamedData


def test_all_of_a_data_set_knows_what_was_seen() -> None:
    section = NamedData(name="digits", limit=50)
    trained = section.build()
    everything = section.points(trained, split="all", limit=80)
    seen = everything.details["seen"]
    assert len(everything) == 80
    assert int(seen.sum()) == 50
    assert bool((everything.x[seen] == trained.x).all())
    assert "seen" not in section.points(trained, split="test", limit=10).details
