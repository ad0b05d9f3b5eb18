"""What watching costs: the live page's server on a sweep of 1,000 trials, and the signs of life a run gives.

The store is made up (``Store.publish`` with invented records), the server is the real one in a process of its own. Its
memory and processor time are read from /proc, first while nobody looks, then with a page connected that has
asked for curves.

    python benchmarks/live.py [--trials 1000] [--seconds 20]
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path
from typing import Any

from undertow.config.grid import StudyConfig
from undertow.config.trial import validate
from undertow.probe.records import Record
from undertow.store.progress import Beacon
from undertow.store.record_files import encode_all
from undertow.store.store import Store
from undertow.store.stored_trial import FinishedTrial

MOMENTS = 200
MEASURES = (("loss", "mean"), ("loss", "log10"), ("stable-rank", "hidden.weight"), ("accuracy", ""))


def study(trials: int) -> StudyConfig:
    return validate(
        StudyConfig,
        {
            "name": "watched",
            "data": {"name": "kou-mixture", "n": 6, "d": 12},
            "model": {"name": "two-layer", "width": 8, "init": {"name": "gaussian", "std": 0.1}},
            "training": {"learning_rate": 0.05, "epochs": MOMENTS},
            "probe": {"measures": ["loss", "stable-rank", "accuracy"]},
            "grid": {"std": [0.01, 0.1, 1.0, 10.0], "seed": list(range(math.ceil(trials / 4)))},
        },
    )


def records(trial: str, slope: float) -> bytes:
    return encode_all(
        Record(trial, step, step, measure, key, math.exp(-slope * step))
        for step in range(MOMENTS)
        for measure, key in MEASURES
    )


def fill(store: Store, grid: StudyConfig) -> None:
    store.add_study(grid)
    finished = [
        FinishedTrial(
            config=point.trial,
            records=records(point.trial.id, 0.001 * (1 + place % 40)),
            weights=b"\0" * 1024,
            status={"status": "finished", "step": MOMENTS, "reason": None},
            provenance={"cost": {"seconds": 1.0}, "group": {"id": "0", "size": 1}},
        )
        for place, point in enumerate(grid.points)
    ]
    for start in range(0, len(finished), 100):
        store.publish(finished[start : start + 100])


def memory(pid: int) -> dict[str, float]:
    """Resident megabytes now and at the most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Vm")}
    return {"now": int(found["VmRSS"]) / 1024, "most": int(found["VmHWM"]) / 1024}


def cpu(pid: int) -> float:
    """Seconds of processor time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def share(pid: int, seconds: float, stream: http.client.HTTPResponse | None = None) -> float:
    """The share of one core that the process takes."""
    before, began = cpu(pid), time.monotonic()
    while time.monotonic() - began < seconds:
        if stream is None:
            time.sleep(0.1)
        else:
            stream.fp.readline()  # blocks: at the latest until the server says that it is still here
    return (cpu(pid) - before) / (time.monotonic() - began)


def next_event(stream: http.client.HTTPResponse, kind: str) -> dict[str, Any]:
    name = b""
    while True:
        line = stream.fp.readline()
        if line.startswith(b"event: "):
            name = line[7:].strip()
        elif line.startswith(b"data: ") and name == kind.encode():
            document: dict[str, Any] = json.loads(line[6:])
            return document


def watch(runs: Path, seconds: float) -> None:
    command = [
        sys.executable,
        "-c",
        "from undertow.cli import main; main()",
        "live",
        str(runs),
        "--port",
        "0",
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        server.stdout.readline()
        url = urllib.parse.urlsplit(server.stdout.readline().strip())
        time.sleep(1)
        print(f"nobody looks     {memory(server.pid)['now']:5.0f} MB   {share(server.pid, 5):6.2%} of a core")
        began = time.monotonic()
        events = http.client.HTTPConnection(url.hostname or "", url.port, timeout=60)
        events.request("GET", "/events")
        stream = events.getresponse()
        state = next_event(stream, "state")
        took = time.monotonic() - began
        print(f"first state      {took:5.2f} s for {state['trials']:,} trials")
        label = urllib.parse.quote(state["parts"][0]["label"])
        for measure, key in MEASURES[:3]:
            began = time.monotonic()
            ask = http.client.HTTPConnection(url.hostname or "", url.port, timeout=60)
            ask.request("GET", f"/curves?label={label}&measure={measure}&key={key}")
            answer = ask.getresponse().read()
            took = time.monotonic() - began
            curves = len(json.loads(answer)["curves"])
            print(
                f"curves           {took:5.2f} s   {curves:,} of {measure} {key}, {len(answer) / 2**20:.1f} MB"
            )
        while not next_event(stream, "verdicts")["current"]:  # a process of its own, over before we count
            pass
        busy = share(server.pid, seconds, stream)
        most = memory(server.pid)
        print(f"a page, no news  {most['now']:5.0f} MB   {busy:6.2%} of a core (bars: 100 MB, 5 %)")
        print(f"at the most      {most['most']:5.0f} MB")
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=20)


def signs_of_life(folder: Path, repeats: int = 300) -> None:
    """A group of 64 trials that measures everything once a second, for five minutes."""
    trials = [f"{i:016x}" for i in range(64)]
    one = encode_all(Record(trial, 0, 0, measure, key, 0.5) for trial in trials for measure, key in MEASURES)
    beacon = Beacon(folder, "0" * 16, trials, every=0.0)
    so_far = bytearray()
    began = time.process_time()
    for step in range(repeats):
        so_far += one
        beacon.tell(step, repeats + 1, so_far)
    each = (time.process_time() - began) / repeats
    print(f"signs of life    {1000 * each:5.2f} ms once a second: {each:.2%} of a run (bar: 1 %)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        grid = study(arguments.trials)
        fill(Store(folder), grid)
        print(f"{len(grid.points):,} trials of {MOMENTS * len(MEASURES):,} records each")
        watch(Path(folder), arguments.seconds)
        signs_of_life(Path(folder) / "work" / ("0" * 16))


if __name__ == "__main__":
    main()
