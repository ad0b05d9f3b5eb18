"""``import undertow`` and the command line stay light."""

from __future__ import annotations

import subprocess
import sys

import pytest

import undertow


def _loaded(code: str, modules: str) -> str:
    probe = f"import sys; {code}; print([m for m in {modules.split()!r} if m in sys.modules])"
    return subprocess.run(
        [sys.executable, "-c", probe], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.mark.parametrize("code", ["import undertow", "import undertow.cli"])
def test_nothing_heavy_is_imported_before_it_is_used(code: str) -> None:
    assert _loaded(code, "torch numpy polars altair sklearn scipy starlette pyautoattack") == "[]"


def test_measuring_needs_neither_tables_nor_drawing() -> None:
    code = "import undertow; undertow.jacobian_norms, undertow.collaboration, undertow.robustness, undertow.Probe"
    assert _loaded(code, "polars altair starlette pyautoattack cyclopts sklearn dask") == "[]"


def test_attacking_loads_no_compiler() -> None:
    """The first optimizer of ``torch.optim`` does, which takes a second."""
    code = (
        "import torch, undertow; x, y = torch.ones(2, 2), torch.arange(2); "  # one of the two is right
        "undertow.robust_accuracy(torch.nn.Linear(2, 2), x, y, eps=1, attack='cw')"
    )
    assert _loaded(code, "torch._dynamo") == "[]"


def test_every_public_name_is_there() -> None:
    for name in undertow.__all__:
        assert getattr(undertow, name) is not None
    assert set(undertow.__all__) <= set(dir(undertow))
    with pytest.raises(AttributeError, match="jacobian_norm"):
        undertow.jacobian_norm  # noqa: B018  # type: ignore[attr-defined]
