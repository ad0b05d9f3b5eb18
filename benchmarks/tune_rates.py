"""First rates for the study of optimisers, rule by rule, on problems that are not among the study's.

Every part is trained as the study trains it, with each of the rates, on seeds from 1000 on: all rates of one problem
are one batch. What is compared is what the study asks for: the margin in the rule's own norm as a share of the largest,
the KKT residual in it, or the steps until the loss at which networks are compared. Printed is the median seed.

    python benchmarks/tune_rates.py --parts binary-gd binary-adam
    python benchmarks/tune_rates.py --parts long-coordinate --rates 1 3 10 --scale laptop
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterable

from undertow.config.grid import StudyConfig
from undertow.core.validation import validate
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.store.store import Store
from undertow.store.stored_trial import StoredTrial
from undertow.studies import find
from undertow.studies.optimisers.rules import RULES

FIRST = 1000
RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def tuning(study: StudyConfig, rates: Iterable[float], seeds: int) -> StudyConfig:
    """The part over rates and other seeds instead of its own; its further axes stay."""
    document = study.model_dump(mode="json")
    axes = {"learning_rate": list(rates), "seed": list(range(FIRST, FIRST + seeds))}
    return validate(StudyConfig, {**document, "grid": {**document["grid"], **axes}, "seed_set": "tuning"})


def found(trial: StoredTrial, rule: str) -> tuple[str, float]:
    """What is compared of one network, with its name."""
    last = {(record.measure, record.key): record.value for record in trial.records}
    norm, stop = RULES[rule].norm, trial.settings["training"].get("stop_below")
    if ("linear-optimum", f"optimum:{norm}") in last:
        best = last["linear-optimum", f"optimum:{norm}"]
        return "share of the largest margin", last["norm-margins", f"margin:{norm}"] / best
    if stop is None:
        return "KKT residual, 1 where a point is wrong", last.get(("norm-kkt", f"total:{norm}"), 1.0)
    reached = last["steps", "log10_loss"] <= stop
    steps = float(max(record.step for record in trial.records))
    return f"steps to a loss of 10^{stop:g}", steps if reached else math.inf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--parts", nargs="+", required=True)
    parser.add_argument("--rates", nargs="+", type=float, default=list(RATES))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--scale", choices=("smoke", "laptop", "paper"), default="laptop")
    options = parser.parse_args()
    for part in options.parts:
        rule = part.split("-")[1]
        (study,) = find("optimisers").grids(options.scale, "paper", parts=[part])
        study = tuning(study, options.rates, options.seeds)
        values: dict[tuple[float, str], list[float]] = defaultdict(list)
        with tempfile.TemporaryDirectory() as scratch:
            store = Store(scratch)
            sweep(store, study, engine=Here(keep_weights=False))
            for point in study.points:
                further = {
                    name: value
                    for name, value in point.columns.items()
                    if name not in ("seed", "learning_rate")
                }
                if point.trial.id in store:
                    what, value = found(store.trial(point.trial.id), rule)
                    values[point.trial.training.learning_rate, f"{further or ''}"].append(value)
        print(f"{part}: {what}, median of {options.seeds} problems")
        for (rate, more), each in sorted(values.items(), key=lambda item: item[0][::-1]):
            shown = " ".join(f"{value:.4f}" for value in sorted(each))
            print(f"  {rate:8g} {more} {statistics.median(each):.4f}   ({shown})", flush=True)


if __name__ == "__main__":
    main()
