"""The largest eigenvalues of a loss's Hessian or Gauss–Newton matrix, and how well they are known."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from undertow.core.shown import Shown
from undertow.core.status import Status
from undertow.curvature.chosen_parameters import ChosenParameters
from undertow.curvature.curvature_products import CurvatureMatrix

__all__ = ["SharpnessResult"]


@dataclass(frozen=True)
class SharpnessResult(Shown):
    """λ_1, the largest eigenvalue, not the one of largest modulus, and more of them where ``top`` asked for more.

    ``value − rounding ≤ λ_1 ≤ value + error``. The first always holds: a Ritz value is never larger than λ_1 but for
    rounding, which is measured by repeating products with every result perturbed. The second holds

    - with status ``exact`` (few parameters: the whole matrix) always;
    - with ``converged`` unless the random start nearly missed the top direction: probability at most ``risk``;
    - with ``tracked`` (a warm start) likewise, and ``error``, which is what this call's randomness proves by itself, is
      more than was asked for, but no more than four times. ``residual`` is within rtol: *an* eigenvalue is that
      close. That no other within the error is larger is inherited from the cold call at the beginning;
    - with ``max-steps`` and ``rounding`` as with ``converged``, but the error is more than was asked for.

    The error is absolute: of a Hessian that vanishes, or whose largest eigenvalue does, it says how close to zero.
    ``values``, ``errors``, ``residuals`` ‖Hx − θx‖ (k,) and ``vectors`` (k, P) are those of the k largest, in falling
    order, and ``risk`` is for all of them together. ``kinks`` names operations without a second derivative somewhere (a
    ReLU, a maximum): the matrix is then that of the pieces which are active at the samples.
    """

    value: float
    error: float
    status: Status
    values: Tensor
    errors: Tensor
    vectors: Tensor
    residuals: Tensor
    rounding: float
    risk: float
    steps: int
    products: int
    matrix: CurvatureMatrix
    method: str
    parameters: ChosenParameters
    kinks: tuple[str, ...] = ()

    @property
    def residual(self) -> float:
        """‖Hx − θx‖ of the largest."""
        return float(self.residuals[0])

    @property
    def vector(self) -> Tensor:
        """Unit eigenvector of the largest, (P,): the parameters' entries one after the other."""
        return self.vectors[0]

    def by_parameter(self, place: int = 0) -> dict[str, Tensor]:
        """The eigenvector at that place, as a tensor in the shape of each parameter."""
        pieces = self.parameters.apart(self.vectors[place : place + 1])
        return {name: piece[0] for name, piece in zip(self.parameters.names, pieces, strict=True)}

    @property
    def sentence(self) -> str:
        """How it ended, and what the number is where the network has kinks."""
        if not self.kinks:
            return self.status.sentence
        return (
            f"{self.status.sentence} The network has kinks ({', '.join(self.kinks)}): this is the curvature of the "
            "pieces that are active at the samples, and does not see the kinks themselves."
        )
