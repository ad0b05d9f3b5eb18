"""What it costs to begin: importing undertow beside torch, and the command line's first answer.

Every figure is the best of several fresh interpreters on this machine.

    python benchmarks/startup.py
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path


def seconds(arguments: list[str], repeats: int = 5) -> float:
    """Best wall-clock time of a few runs."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        subprocess.run(arguments, check=True, capture_output=True)
        best = min(best, time.perf_counter() - begin)
    return best


def main() -> None:
    python = sys.executable
    nothing = seconds([python, "-c", "pass"])
    torch = seconds([python, "-c", "import torch"])
    alone = seconds([python, "-c", "import torch, undertow"])
    names = "undertow.jacobian_norms, undertow.collaboration, undertow.robustness, undertow.Probe"
    everything = seconds([python, "-c", f"import torch, undertow; {names}"])
    help_text = seconds([str(Path(python).with_name("undertow")), "--help"])
    print(f"python alone                          {nothing:.2f} s")
    print(f"import torch                          {torch:.2f} s")
    print(f"  and undertow                        {alone - torch:+.2f} s   (bar: 0.3 s)")
    print(f"  and every measure used once         {everything - torch:+.2f} s")
    print(f"undertow --help                       {help_text:.2f} s   (bar: 0.5 s)")


if __name__ == "__main__":
    main()
