"""Input that means no good, or was unlucky: study files and data files by the thousand, through the command line.

Each file is given to a real command in a process that may have 1 GB; it must end in a sentence (or, where the file
turns out to be valid, in a result) within 10 s of processor time. Printed: how the commands ended, tracebacks, the
most memory, the slowest. A study that would train for hours is stopped as by Ctrl-C, and must stop.

    python benchmarks/hostile.py [--studies 5000] [--files 200] [--seed 0]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.hostile.data_files import data_cases
from tests.hostile.harness import Case, Ending, run_cases
from tests.hostile.studies import fuzzed_studies


def study_cases(folder: Path, count: int, *, seed: int) -> Iterable[Case]:
    for number, text in enumerate(fuzzed_studies(count, seed=seed)):
        path = folder / f"study-{number}.toml"
        path.write_bytes(text)
        yield Case(path.name, ("run", str(path), "--runs", "{runs}", "--engine", "here", "--offline"))


def summarise(title: str, endings: Iterable[Ending], keep: Path | None) -> bool:
    """Print a line about all of them, and one about each that did not end as it should."""
    found: list[Ending] = []
    for ending in endings:
        found.append(ending)
        if not ending.is_clean:
            last = ending.printed.strip().splitlines()[-6:]
            print(
                f"  {ending.name}: {ending.ended} after {ending.seconds:.1f} s",
                *last,
                sep="\n    ",
                flush=True,
            )
    if keep is not None:
        text = "\n".join(
            f"{each.name}\t{each.ended}\t{each.seconds:.2f}\t{each.bytes}\t{each.printed!r}" for each in found
        )
        (keep / f"{title.split()[0]}.tsv").write_text(text)
    words = {"0": "done", "1": "failed with a sentence", "2": "refused with a sentence", "130": "stopped"}
    counts = Counter(words.get(each.ended, each.ended) for each in found)
    slowest, largest = max(found, key=lambda e: e.seconds), max(found, key=lambda e: e.bytes)
    bad = [each for each in found if not each.is_clean]
    print(
        f"{title}: {len(found)} files: "
        + ", ".join(f"{number} {what}" for what, number in counts.most_common())
    )
    print(f"  not as it should be: {len(bad)}")
    print(f"  most memory: {largest.bytes / 1e6:.0f} MB ({largest.name})")
    print(f"  slowest: {slowest.seconds:.1f} s of processor time ({slowest.name})")
    return not bad


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--studies", type=int, default=5000)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--keep", type=Path, help="a folder for the files, and for what was printed about each"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        good = True
        if options.studies:
            cases = study_cases(folder, options.studies, seed=options.seed)
            good &= summarise("studies", run_cases(cases), options.keep)
        if options.files:
            cases = data_cases(folder, options.files, seed=options.seed)
            good &= summarise("data files", run_cases(cases), options.keep)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
