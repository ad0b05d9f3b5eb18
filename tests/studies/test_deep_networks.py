"""Figure 2 on deep networks: what its parts ask for, and what its claims make of records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars
import pytest

from undertow.config.grid import StudyConfig
from undertow.core.validation import validate
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.store.store import Store
from undertow.studies import find
from undertow.studies.co_correlation.deep_networks.claims import CLAIMS, PUBLISHED, at_cuts
from undertow.studies.co_correlation.deep_networks.figures import FIGURES
from undertow.studies.co_correlation.deep_networks.parts import ALL, CUTS
from undertow.studies.kit.claim import Verdict
from undertow.studies.kit.presence import present

STUDY = find("co-correlation")


def grid(variant: str, part: str = "deep-networks", scale: str = "paper") -> StudyConfig:
    (found,) = STUDY.grids(scale, variant, parts=[part])
    return found


def records(
    *, seeds: int = 6, ends: dict[str, tuple[float, float]], start: float = 0.0, part: str = ""
) -> polars.DataFrame:
    """ϱ that goes straight from one end to the other at every cut, and accuracies beside it."""
    rows: list[dict[str, Any]] = []
    for seed in range(seeds):
        about = {
            "trial": f"{start}-{seed}",
            "seed": seed,
            "architecture": "resnet-50",
            "residual_start": start,
            "data_name": "cifar10",
            "variant": "authors",
            "part": part or ("deep-start" if start else "deep-networks"),
        }
        for epoch in range(0, 51, 10):

            def reading(measure: str, key: str, value: float, at: int = epoch, own: Any = about) -> None:
                rows.append({**own, "measure": measure, "key": key, "step": at, "epoch": at, "value": value})

            for cut in CUTS:
                begin, end = ends.get(cut, ends[CUTS[-2]])
                value = begin + (end - begin) * epoch / 50 + 1e-4 * seed
                if cut != CUTS[-1]:
                    reading("seam-profile", f"{cut}:co_correlation", value)
                if epoch == 50:
                    reading("seam-profile", f"{ALL}:{cut}:co_correlation", value)
            reading("accuracy", "", 0.1 + 0.01 * epoch)
            reading("robust-accuracy", "0.5", 0.1)
    return polars.DataFrame(rows)


RISING = dict.fromkeys(CUTS, (0.3, 0.5))


def judged(frame: polars.DataFrame, id: str) -> Verdict:
    (claim,) = (claim for claim in CLAIMS if claim.id == id)
    return claim.test(frame).verdict


def test_the_authors_settings_are_theirs() -> None:
    found = grid("authors")
    training = found.training
    assert (training.optimizer.name, training.learning_rate) == ("adam", 5e-4)
    assert (training.batch_size, training.shuffle, training.epochs) == (1024, False, 50)
    assert training.frozen == ("fc.weight", "fc.bias")
    assert training.batch_statistics_epochs == 1
    assert found.data.model_dump()["normalise"] == "centred"
    assert found.model.model_dump()["architecture"] == "resnet-50"
    assert len(found.points) == 6
    usual = grid("paper").training
    assert (usual.shuffle, usual.frozen, usual.batch_statistics_epochs) == (True, (), None)
    assert {point.columns["residual_start"] for point in grid("paper", "deep-start").points} == {1.0}
    assert len(grid("authors", "deep-wide").points) == 2
    with pytest.raises(Exception, match="has no part"):
        grid("paper-low-high")


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_the_statistics_alone_are_what_a_part_changes(scale: str) -> None:
    theirs, other = (grid("authors", part, scale) for part in ("deep-networks", "deep-statistics"))
    assert other.training.batch_statistics_epochs is None
    same = {"batch_statistics_epochs": 1}
    assert other.training.model_copy(update=same) == theirs.training
    assert (other.data, other.model) == (theirs.data, theirs.model)
    assert (other.grid == theirs.grid) is (scale != "smoke")  # where two seeds show that it runs
    with pytest.raises(Exception, match="has no part"):
        grid("paper", "deep-statistics", scale)


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_every_scale_measures_the_same_cuts(scale: str) -> None:
    profiles = [m for m in grid("authors", scale=scale).probe.measures if m["name"] == "seam-profile"]
    assert [tuple(profile["seams"]) for profile in profiles] == [CUTS, CUTS[:-1]]
    assert profiles[0]["every"] == "end"


def test_a_cut_that_goes_as_printed_is_found_and_others_are_not() -> None:
    printed = records(ends={**RISING, "maxpool": (0.231, 0.249)})
    (claim,) = (claim for claim in CLAIMS if claim.id == "C-t.a1-a2")
    finding = claim.test(printed)
    assert finding.verdict is Verdict.HOLDS
    assert "maxpool: 0.231 to 0.249" in finding.note
    assert judged(records(ends=RISING), "C-t.a1-a2") is Verdict.FAILS
    numbers = {number.what: number.ours(printed) for number in PUBLISHED}
    assert numbers["ϱ of ResNet-50 at A1-A2 after training"][0] == pytest.approx(0.249)
    assert numbers["ϱ of ResNet-50 at B1-B2 before training"][0] == pytest.approx(0.3)


def test_two_seeds_decide_nothing() -> None:
    assert judged(records(ends=RISING, seeds=2), "C-t.wrn") is Verdict.UNDECIDED
    assert judged(records(ends=RISING), "C-t.wrn") is Verdict.HOLDS
    falling = dict.fromkeys(CUTS, (0.5, 0.3))
    assert judged(records(ends=falling), "C-t.wrn") is Verdict.FAILS


def test_the_start_is_compared_seed_by_seed() -> None:
    flat = dict.fromkeys(CUTS, (0.3, 0.31))
    both = polars.concat([records(ends=RISING), records(ends=flat, start=1.0)])
    assert judged(both, "C-t.start") is Verdict.HOLDS
    other = polars.concat([records(ends=flat), records(ends=RISING, start=1.0)])
    assert judged(other, "C-t.start") is Verdict.FAILS


def test_the_statistics_are_compared_seed_by_seed_and_part_by_part() -> None:
    flat = dict.fromkeys(CUTS, (0.3, 0.31))
    other = "deep-statistics"
    assert (
        judged(polars.concat([records(ends=RISING), records(ends=flat, part=other)]), "C-t.statistics")
        is Verdict.HOLDS
    )
    assert (
        judged(polars.concat([records(ends=flat), records(ends=RISING, part=other)]), "C-t.statistics")
        is Verdict.FAILS
    )


def test_every_figure_is_drawn() -> None:
    both = polars.concat([records(ends=RISING), records(ends=RISING, start=1.0)])
    for figure in FIGURES:
        frame = both if len(figure.parts) > 1 else records(ends=RISING)
        assert figure.draw(frame).to_dict()["title"]


def briefly(study: StudyConfig) -> StudyConfig:
    """One seed of the paper's scale, networks at full width, on a hundred pictures; measured before and after."""
    document = study.model_dump(mode="json")
    document["grid"] |= {"seed": [0]}
    document["training"] |= {"batch_size": 50, "epochs": 2}
    document["data"] |= {"limit": 100}
    if not present("cifar10"):
        document["grid"] |= {"data.name": ["digits"]}
        document["data"] |= {"name": "digits"}
        document["model"] |= {"image": [1, 8, 8]}
    for measure in document["probe"]["measures"]:
        measure |= {"limit": 1} if "limit" in measure else {}
        measure |= {"every": 4} if isinstance(measure.get("every"), int) else {}
    document["probe"] |= {"every": 4, "limit": 20}
    return validate(StudyConfig, document)


@pytest.mark.full
@pytest.mark.parametrize(
    ("variant", "part"),
    [("authors", "deep-networks"), ("paper", "deep-start"), ("authors", "deep-wide")],
)
def test_networks_of_the_papers_size_are_trained_and_cut_everywhere(
    variant: str, part: str, tmp_path: Path
) -> None:
    study = briefly(grid(variant, part))
    store = Store(tmp_path)
    assert sweep(store, study, engine=Here(keep_weights=False)).finished == 1
    frame = store.frame()
    curves = at_cuts(frame)
    assert curves["cut"].unique().sort().to_list() == sorted(CUTS[:-1])
    assert curves["epoch"].unique().sort().to_list() == [0, 2]
    assert curves["value"].is_between(0.0, 1.0 + 1e-6).all()
    own = frame.filter(
        polars.col("key").str.starts_with(f"{ALL}:") & (polars.col("measure") == "seam-profile")
    )
    last = dict(own.select("key", "value").iter_rows())
    assert last[f"{ALL}:pool:co_correlation"] == pytest.approx(last[f"{ALL}:layer4:co_correlation"], rel=0.03)
    change = curves.filter(polars.col("cut") == "layer4")["value"].to_list()
    assert change[0] != change[1]
