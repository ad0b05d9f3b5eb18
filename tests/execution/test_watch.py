"""What a sweep shows while it runs: bars on a terminal, a line every half minute in a log."""

from __future__ import annotations

import io
import re

from rich.console import Console

from undertow.execution.watch import Bars, Lines

from .sweeps import tiny_study


def test_a_log_gets_a_line_every_half_minute_with_the_time_left() -> None:
    first, second, *_ = tiny_study().groups  # of three trials each
    written, now = io.StringIO(), 100.0
    lines = Lines("tiny", trials=12, done=3, console=Console(file=written, width=200), clock=lambda: now)
    with lines:
        lines.progress(first, 0, 100)
        now = 110.0
        lines.progress(first, 50, 100)
        assert written.getvalue() == ""  # a short study says nothing
        now = 130.0
        lines.progress(first, 100, 100)
        now = 140.0
        lines.ended(first, finished=True)
        now = 150.0
        lines.progress(second, 0, 100)
        now = 165.0
        lines.progress(second, 25, 100)
        lines.progress(second, 30, 100)
        now = 200.0
        lines.ended(second, finished=False)  # it failed, and what it had done counts for nothing
    assert written.getvalue().splitlines() == [
        "tiny: 6 of 12 trials after 0:30, about 1:00 left, last measurements not counted",
        # The first took 40 s from its first sign on, where its steps alone would have taken 20: so the second, after a
        # quarter of its steps, is an eighth of its time on its way.
        "tiny: 6 of 12 trials after 1:05, about 1:48 left",
        "tiny: 6 of 12 trials after 1:40, about 3:20 left",
    ]


def test_what_was_done_before_an_interruption_says_nothing_of_the_pace() -> None:
    group = tiny_study().groups[0]
    written, now = io.StringIO(), 0.0
    lines = Lines("tiny", trials=3, done=0, console=Console(file=written, width=200), clock=lambda: now)
    lines.progress(group, 80, 100)  # taken up again at a checkpoint
    now = 30.0
    lines.progress(group, 90, 100)
    line = "tiny: 2 of 3 trials after 0:30, about 0:30 left, last measurements not counted\n"
    assert written.getvalue() == line


def test_groups_that_are_mostly_measured_after_their_last_step() -> None:
    """Four groups of 100 s of steps and 300 s of attacks each, one after the other: the log keeps its promise."""
    written, now = io.StringIO(), 0.0
    lines = Lines("tiny", trials=12, done=0, console=Console(file=written, width=200), clock=lambda: now)
    for place, group in enumerate(tiny_study().groups):
        for step in range(10):
            now = 400.0 * place + 10 * step
            lines.progress(group, step, 10)
        now = 400.0 * place + 400
        lines.progress(group, 10, 10)
        lines.ended(group, finished=True)
    known = [line for line in written.getvalue().splitlines() if "not counted" not in line]
    times = [re.findall(r"(\d+):(\d\d)", line) for line in known]
    assert len(times) == 5
    assert {sum(60 * int(minutes) + int(seconds) for minutes, seconds in pair) for pair in times} == {1600}


def test_a_long_study_does_not_fill_the_log() -> None:
    group = tiny_study().groups[0]
    written, now = io.StringIO(), 0.0
    lines = Lines("tiny", trials=3, done=0, console=Console(file=written, width=200), clock=lambda: now)
    for second in range(0, 36_000, 10):
        now = float(second)
        lines.progress(group, second, 36_000)
    assert 20 < len(written.getvalue().splitlines()) < 80


def test_a_line_before_anything_is_done_promises_nothing() -> None:
    group = tiny_study().groups[0]
    written, now = io.StringIO(), 0.0
    lines = Lines("tiny", trials=12, done=0, console=Console(file=written, width=200), clock=lambda: now)
    now = 3660.0
    lines.progress(group, 0, 100)
    assert written.getvalue() == "tiny: 0 of 12 trials after 1:01 h\n"


def test_a_terminal_gets_bars_that_leave_nothing_behind() -> None:
    group = tiny_study().groups[0]
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=100)
    with Bars("tiny", trials=12, done=0, console=console) as bars:
        bars.progress(group, 50, 100)
        bars._bars.refresh()
        assert "tiny" in written.getvalue()
        assert "1/12" in written.getvalue()
        bars.ended(group, finished=True)
    assert bars.completed == 3
    assert written.getvalue().rstrip().endswith("\x1b[2K")  # the last thing written clears the line


def test_who_holds_what_is_left_is_said_once() -> None:
    for kind in (Lines, Bars):
        out = io.StringIO()
        console = Console(file=out, width=80, force_terminal=kind is Bars)
        with kind("tiny", trials=2, done=0, console=console) as watch:
            for _ in range(3):
                watch.waiting(["a is being worked on [by] b"])
            watch.waiting(["c is being worked on by d"])
        assert out.getvalue().count("Waiting: a is being worked on [by] b") == 1
        assert out.getvalue().count("Waiting: c") == 1
