"""Which method computes the norms, by the sizes of the Jacobians, and how many steps it may take."""

from __future__ import annotations

from typing import Literal

from undertow.core.errors import InputError, nearest
from undertow.jacobian import tridiagonal
from undertow.jacobian.operator import JacobianOperator

__all__ = ["ONE_MATRIX", "Method", "check_options", "chosen_method", "default_steps"]

Method = Literal["auto", "exact", "krylov", "power", "power-authors"]
_METHODS = ("auto", "exact", "krylov", "power", "power-authors")
_SMALL_SIDE = 64
ONE_MATRIX = 1024
"""The largest side of a Gram matrix that a GPU computes sooner than it launches a run's steps, where there are few."""


def check_options(method: Method, rtol: float, max_steps: int | None, risk: float) -> None:
    """Refuse, in a sentence, what ``jacobian_norms`` cannot be asked for."""
    if method not in _METHODS:
        raise InputError(f"there is no method {method!r}: {nearest(str(method), _METHODS)}")
    if not 0 < rtol < 1:
        raise InputError(f"rtol must lie between 0 and 1, not {rtol}.")
    if not 0 < risk < 1:
        raise InputError(f"risk must lie between 0 and 1, not {risk}.")
    if max_steps is not None and max_steps < 1:
        raise InputError(f"max_steps must be at least 1, not {max_steps}.")


def chosen_method(method: Method, operator: JacobianOperator) -> str:
    """What "auto" is for Jacobians like those of ``operator``; any other method as it was given."""
    if method != "auto":
        return method
    small = min(operator.in_size, operator.out_size)
    # One matrix for all samples: on a GPU its Gram matrix takes less time than launching Lanczos steps.
    single = operator.constant and operator.device.type == "cuda" and small <= ONE_MATRIX
    return "exact" if small <= _SMALL_SIDE or single else "krylov"


def default_steps(method: str, small: int, rtol: float, risk: float) -> int:
    """The most steps of a run where no other number is given."""
    if method == "power-authors":
        return 30
    if method == "power":
        return 10_000
    # Twice what the worst spectrum needs for its value: the residual may lag behind.
    return min(small, 2 * tridiagonal.a_priori_steps(small, rtol, risk))
