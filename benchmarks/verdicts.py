"""How often verdicts are false: alone, among fifty claims judged together, and how often they are missed.

    python benchmarks/verdicts.py                 the whole table, about a minute on one core
    python benchmarks/verdicts.py --samples 2000  a quick look

Every table goes the way of a study: values per seed into ``decide``, p of all claims into ``adjusted``. A verdict is
false when it says that the median seed is on a side of the line where it is not; with the median on the line, both
are.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import cache

import numpy as np

from undertow.studies.kit.claim import Verdict, decide
from undertow.studies.kit.exact_tests import sign_test
from undertow.studies.kit.multiplicity import LEVEL, adjusted

SEEDS = (6, 8, 10, 20)
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def jumping(source: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Tiny noise about 0, and one value in ten far above: the median is a little above 0, and taken off."""
    quiet = 1e-6 * source.normal(size=shape)
    # Half of all values are below q where 0.9 Φ(q) = ½.
    return np.where(source.random(shape) < 0.1, 1.0, quiet) - 1e-6 * 0.13971029888186212


def tied(source: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Whole numbers −1, 0, 1 with chances 0.45, 0.3, 0.25: the line 0 is the median, and three in ten are on it."""
    return source.choice([-1.0, 0.0, 1.0], p=[0.45, 0.3, 0.25], size=shape)


def coin(share: float, line: float) -> Draw:
    return lambda source, shape: (source.random(shape) < share).astype(float) - line


NULLS: dict[str, Draw] = {
    "normal": lambda source, shape: source.normal(size=shape),
    "t with 2 degrees": lambda source, shape: source.standard_t(2, size=shape),
    "exponential": lambda source, shape: source.exponential(size=shape) - math.log(2),
    "lognormal": lambda source, shape: source.lognormal(size=shape) - 1.0,
    "tiny noise, rare jumps": jumping,
    "ties, 30 % on the line": tied,
    "Bernoulli(0.4) at 0": coin(0.4, 0.0),
    "Bernoulli(0.5) at 0": coin(0.5, 0.0),
    "Bernoulli(0.5) at 0.5": coin(0.5, 0.5),
    "Bernoulli(0.5) at 1": coin(0.5, 1.0),
    "Bernoulli(0.9) at 1": coin(0.9, 1.0),
    "always on the line": lambda _, shape: np.zeros(shape),
}
"""Values whose median is on the line 0."""


def false_alone(draw: Draw, n: int, *, samples: int, seed: int = 0) -> tuple[float, float]:
    """The shares of samples that are called above and below the line, though their median is on it."""
    values = draw(np.random.default_rng(seed), (samples, n))
    verdicts = [decide(each, above=0.0).verdict for each in values.tolist()]
    return verdicts.count(Verdict.HOLDS) / samples, verdicts.count(Verdict.FAILS) / samples


def power(n: int, shift: float, *, samples: int, seed: int = 0) -> float:
    """The share of samples of a normal with the mean ``shift`` standard deviations from the line that are decided."""
    values = shift + np.random.default_rng(seed).normal(size=(samples, n))
    return sum(decide(each, above=0.0).verdict is Verdict.HOLDS for each in values.tolist()) / samples


@cache
def _p(above: int, below: int, n: int) -> float:
    return sign_test(above, below, n)


def discoveries(
    true: int,
    correlation: float,
    n: int,
    *,
    claims: int = 50,
    shift: float = 2.0,
    samples: int,
    seed: int = 0,
) -> tuple[float, float, float, float]:
    """Families of claims of which ``true`` have an effect, half of them above and half below the line.

    All claims of a family see the same seeds: a share ``correlation`` of each value's variance is common to them,
    with one sign or the other, as where one claim's gain is another's loss. Returns the expected share of false
    verdicts in a family (which Benjamini & Hochberg bound), the share of the verdicts of all families that are false
    (which nobody bounds where claims are copies of each other: they are false together), the share of effects found,
    and the share of all verdicts that would be false if each claim were judged alone.
    """
    source = np.random.default_rng(seed)
    centre = np.zeros(claims)
    centre[:true] = np.where(np.arange(true) % 2, -shift, shift)
    signs = np.where(np.arange(claims) % 3 == 0, -1.0, 1.0)
    shares, found, false, false_alone, alone = [], 0, 0, 0, 0
    for _ in range(samples):
        common = source.normal(size=(n, 1)) * signs
        own = source.normal(size=(n, claims))
        values = centre + math.sqrt(correlation) * common + math.sqrt(1 - correlation) * own
        above = (values > 0).sum(axis=0)
        p = [_p(int(each), n - int(each), n) for each in above]
        right = np.sign(2 * above - n) == np.sign(centre)
        decided = np.array(adjusted(p)) <= LEVEL
        by_itself = np.array(p) <= LEVEL
        wrong = int((decided & ~right).sum())
        shares.append(wrong / max(int(decided.sum()), 1))
        found += int(decided.sum())
        false += wrong
        alone += int(by_itself.sum())
        false_alone += int((by_itself & ~right).sum())
    hits = (found - false) / (samples * true) if true else math.nan
    return float(np.mean(shares)), false / max(found, 1), hits, false_alone / max(alone, 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=20_000)
    samples = parser.parse_args().samples
    worst = 0.0
    print(f"False verdicts of one claim, in %, the median on the line ({samples:,} samples; above + below)")
    print(f"{'':26}" + "".join(f"{f'{n} seeds':>16}" for n in SEEDS))
    for name, draw in NULLS.items():
        cells = []
        for n in SEEDS:
            over, under = false_alone(draw, n, samples=samples)
            worst = max(worst, over + under)
            cells.append(f"{100 * over:6.2f} + {100 * under:5.2f}")
        print(f"{name:26}" + "".join(f"{cell:>16}" for cell in cells))
    print(f"largest: {100 * worst:.2f} %\n")
    families = max(samples // 10, 1)
    print(f"False verdicts among 50 claims judged together, in % ({families:,} families, ten seeds)")
    print(
        f"{'with effect':>12}{'shared variance':>17}{'expected':>10}{'of all':>8}{'found':>8}{'if alone':>10}"
    )
    most = 0.0
    for true in (0, 5, 15, 25, 40, 50):
        for correlation in (0.0, 0.3, 0.7, 1.0):
            numbers = discoveries(true, correlation, 10, samples=families)
            most = max(most, numbers[0])
            shown = [f"{100 * number:.2f}" if number == number else "–" for number in numbers]
            print(f"{true:>12}{correlation:>17}" + f"{shown[0]:>10}{shown[1]:>8}{shown[2]:>8}{shown[3]:>10}")
    print(f"largest expected share: {100 * most:.2f} %\n")
    print(f"Verdicts found of one claim, in %, normal values ({samples:,} samples)")
    print(f"{'shift':>12}" + "".join(f"{f'{n} seeds':>12}" for n in SEEDS))
    for shift in (0.5, 1.0, 1.5, 2.0, 3.0):
        row = [f"{100 * power(n, shift, samples=samples):.1f}" for n in SEEDS]
        print(f"{shift:>10} σ" + "".join(f"{cell:>12}" for cell in row))


if __name__ == "__main__":
    main()
