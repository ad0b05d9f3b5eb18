"""Commands of undertow, one after the other in one process of little memory: ``python -m tests.hostile.worker BYTES``.

Reads cases as lines of JSON, and answers each with one: how it ended, the processor time it took, the most memory the
process had meanwhile, and what it printed. A command that takes more than ``stop_after`` seconds of processor time is
stopped as by Ctrl-C: a study that trains for long is asked to end at a checkpoint and, as long after that, at once.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

TORCH_FIRST = "torch", "polars", "undertow.execution.group", "undertow.cli.sweeps", "sklearn.datasets"


def main() -> None:
    """Serve until the input ends."""
    import importlib

    for name in TORCH_FIRST:
        importlib.import_module(name)
    most = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with tempfile.TemporaryFile() as said:  # what native code prints, too
        os.dup2(said.fileno(), 2)
        for line in sys.stdin:
            case = json.loads(line)
            os.environ.update(case["environment"])
            answer = attempt(case["command"], case["stop_after"])
            said.seek(0)
            answer["printed"] += said.read().decode(errors="replace")
            said.seek(0)
            said.truncate()
            print(json.dumps({"name": case["name"], **answer}), file=answers, flush=True)


def attempt(command: list[str], stop_after: float) -> dict[str, Any]:
    """Run one command and say how it ended: its exit code, or "traceback"."""
    from undertow.cli.command import call as _call

    runs = Path(tempfile.mkdtemp(prefix="hostile-"))
    printed, ended = io.StringIO(), ""
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    signal.signal(signal.SIGVTALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_VIRTUAL, stop_after, stop_after)
    began = time.process_time()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            ended = str(_call([each.replace("{runs}", str(runs)) for each in command]))
    except SystemExit as error:
        ended = str(error.code)
    except BaseException:
        ended = "traceback"
        printed.write(traceback.format_exc())
    took = time.process_time() - began
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    shutil.rmtree(runs, ignore_errors=True)
    return {"ended": ended, "seconds": took, "bytes": _peak(), "printed": printed.getvalue()}


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


if __name__ == "__main__":
    main()
