"""The co-correlation paper's power iteration, kept as a baseline; it cannot tell how wrong it is."""

from __future__ import annotations

import torch
from torch import Tensor

from undertow.jacobian.operator import JacobianOperator

__all__ = ["power_iteration"]


def power_iteration(
    operator: JacobianOperator, start: Tensor, *, form: str, tolerance: float, max_steps: int
) -> tuple[Tensor, Tensor, bool]:
    """‖J(x_i)‖₂ by power iteration: values (N,), steps (N,), and whether the stop test was met.

    ``start`` is (N, in_size) with entries uniform in [0, 1], as in Algorithm 2, line 3. Each step takes
    v = J u, u = Jᵀ v, and estimates the norm by ‖Jᵀv‖ / ‖v‖.

    - ``"paper"``: every sample iterates until its own relative change falls below ``tolerance``
      (Algorithm 2: 10⁻⁶).
    - ``"authors"``: all samples take the same number of steps, at most ``max_steps`` (30). The change is
      compared to ``tolerance`` (10⁻⁴) with its sign, so that a decrease counts as convergence, over the
      whole batch at once; and the estimate *before* the last step is what is returned.
    """
    u = start / start.norm(dim=1, keepdim=True)
    steps = torch.zeros(len(u), dtype=torch.int64, device=u.device)
    running = torch.ones(len(u), dtype=torch.bool, device=u.device)
    old: Tensor | None = None
    norm = torch.zeros(len(u), dtype=torch.float64, device=u.device)
    for _ in range(max_steps):
        v, _ = _near_one(operator.jvp(u))
        image, exponent = _near_one(operator.vjp(v))
        length, before = image.norm(dim=1), v.norm(dim=1)
        new = torch.ldexp(torch.where(before > 0, length / before, 0.0).double(), exponent)
        u = torch.where(length > 0, image.T / length, 0.0).T
        steps += running
        if form == "authors":
            if old is not None and bool(((new - old) / old.clamp_min(1e-300)).max() < tolerance):
                return old, steps, True
            norm = new
        else:
            norm = torch.where(running, new, norm)
            if old is not None:
                running = running & ((new - old).abs() >= tolerance * old)
                if not bool(running.any()):
                    return norm, steps, True
        old = new
    return norm, steps, False


def _near_one(vector: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors (N, n) less powers of two, which change no digit, and these, (N,).

    ‖JᵀJu‖² is a fourth power: of a norm of 10⁻¹⁰ float32 has none, and of one of 10¹⁰ neither.
    """
    exponent = torch.frexp(vector.abs().amax(1))[1].clamp(-120, 120)
    return torch.ldexp(vector, -exponent[:, None]), exponent
