"""A network with its seam in view: what passes there comes out too, and something can be added to it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from undertow.core.enclosing import innermost
from undertow.core.errors import SeamError, nearest
from undertow.core.outputs import first_tensor, with_first_tensor
from undertow.jacobian.seam_checks import check_seam

__all__ = ["SeamView"]


class SeamView(nn.Module):
    """From (x, z) to (net's outputs with z added at the seam, what passes there), each side one row per sample.

    Both are flat and joined, so that it maps over stacked weights as any module of one tensor does. Head and tail
    need no second pass: ∂outputs/∂z is the head's Jacobian, ∂(what passes)/∂x the tail's. ``width`` values pass.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> x = torch.ones(5, 2)
    >>> view = SeamView(net, "1", x)
    >>> both = view(torch.cat([x, torch.zeros(5, view.width)], 1))
    >>> torch.equal(both[:, :1], net(x)), torch.equal(both[:, 1:], net[:2](x))
    (True, True)
    """

    def __init__(self, net: nn.Module, seam: str, x: Tensor, *, verify: bool = True) -> None:
        super().__init__()
        names = [name for name, _ in innermost(net).named_modules() if name]
        if seam not in names:
            raise SeamError(f"the network has no module {seam!r}: {nearest(seam, names)}")
        if verify:
            check_seam(net, seam, x)
        self.net, self._seam, self._shape = net, seam, x.shape[1:]
        self.training = net.training
        with torch.no_grad():
            _, passing = self._run(x[:1], None)
        self.width = passing[0].numel()

    def forward(self, packed: Tensor) -> Tensor:
        x, z = packed[:, : -self.width], packed[:, -self.width :]
        outputs, passing = self._run(x.reshape(-1, *self._shape), z)
        return torch.cat([outputs.reshape(len(packed), -1), passing.flatten(1)], 1)

    def _run(self, x: Tensor, z: Tensor | None) -> tuple[Tensor, Tensor]:
        found: list[Tensor] = []

        def shifted(_module: nn.Module, _args: object, output: object) -> object:
            passing = first_tensor(output)
            if passing is None:
                raise SeamError(f"{self._seam!r} returns no tensor: cut at a module that does.")
            found.append(passing)
            # A sum is a tensor of its own, which a module that works in place may change.
            return output if z is None else with_first_tensor(output, passing + z.view_as(passing))

        hook = innermost(self.net).get_submodule(self._seam).register_forward_hook(shifted)
        try:
            outputs: Tensor = self.net(x)
        finally:
            hook.remove()
        return outputs, found[0]
