"""What doctests and tests have in common."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _same_draws() -> None:
    """Whatever draws without a generator of its own draws the same, alone and after other tests."""
    torch.manual_seed(0)
