"""What is imported when: listing data sets is quick, and trials run where only torch and numpy are."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import undertow.data


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_listing_data_sets_does_not_wait_for_torch() -> None:
    assert "torch" not in modules_after("from undertow.data import available; available()")


@pytest.mark.parametrize(
    "code",
    [
        "from undertow.data import load; load('digits', normalise='unit-norm')",
        "from undertow.data import d_binary, kou_mixture; kou_mixture(); d_binary(n=2, d=4, k=2)",
    ],
)
def test_trials_need_no_reading_or_drawing_libraries(code: str) -> None:
    assert not modules_after(code) & {"polars", "altair", "cyclopts", "pyarrow", "torchvision", "PIL"}


def test_every_public_name_is_there() -> None:
    assert dir(undertow.data) == sorted(undertow.data.__all__)
    for name in undertow.data.__all__:
        assert getattr(undertow.data, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'laod'"):
        getattr(undertow.data, "laod")  # noqa: B009
