"""Slopes at kinks: where a rectifier's input is zero, Clarke's derivative is any slope between both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from undertow.core.networks import is_unmodified
from undertow.core.scoring import slices

__all__ = ["KinkSlopes", "count_calls", "count_units", "find_kinks", "kinked_modules", "record_inputs"]


_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class KinkSlopes:
    """For some rows of a batch, which units are at their kink, and the slope that each of these has.

    ``at`` and ``slope`` map an activation's name to tensors (n, …) of the shape of its input.
    """

    at: Mapping[str, Tensor]
    slope: Mapping[str, Tensor]

    def part(self, rows: slice | Tensor) -> KinkSlopes:
        return KinkSlopes(
            {name: mask[rows] for name, mask in self.at.items()},
            {name: value[rows] for name, value in self.slope.items()},
        )

    @property
    def rows(self) -> Tensor:
        """Which rows have a unit at its kink, (n,) bool."""
        each = [mask.flatten(1).any(1) for mask in self.at.values()]
        return torch.stack(each).any(0)

    @contextmanager
    def on(self, net: nn.Module) -> Iterator[None]:
        """Within it the network computes with these slopes, on the batch that they belong to."""

        def hook(name: str) -> Callable[..., Tensor]:
            def replaced(module: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> Tensor:  # noqa: ARG001
                return torch.where(self.at[name], given[0] * self.slope[name], output)

            return replaced

        with ExitStack() as stack:
            for name, module in net.named_modules():
                if name in self.at:
                    # A rectifier that works in place would leave nothing of its input.
                    before = module.register_forward_pre_hook(lambda _, given: (given[0].clone(),))
                    after = module.register_forward_hook(hook(name))
                    in_place, module.inplace = module.inplace, False
                    stack.callback(setattr, module, "inplace", in_place)
                    stack.callback(before.remove)
                    stack.callback(after.remove)
            yield


def count_calls(net: nn.Module, sample: Tensor) -> dict[str, int]:
    """How often every module is called in one forward pass, by its name; a module with two names is left out."""
    calls: dict[str, int] = {}
    seen: dict[int, int] = {}
    for _, module in net.named_modules(remove_duplicate=False):
        seen[id(module)] = seen.get(id(module), 0) + 1
    with ExitStack() as stack, torch.no_grad():
        for name, module in net.named_modules():
            if seen[id(module)] > 1:
                calls[name] = 2
                continue

            def count(_: nn.Module, given: object, name: str = name) -> None:  # noqa: ARG001
                calls[name] = calls.get(name, 0) + 1

            stack.callback(module.register_forward_pre_hook(count).remove)
        net(sample)
    return calls


def kinked_modules(net: nn.Module, sample: Tensor) -> dict[str, float]:
    """ReLUs and leaky ReLUs, each with its slope below zero, that are called once, with a row for each sample.

    A row for each step of a sequence, or for each of several pieces of a sample, would be another sample's slopes.
    """
    calls = count_calls(net, sample)
    found = {
        name: float(module.negative_slope) if isinstance(module, nn.LeakyReLU) else 0.0
        for name, module in net.named_modules()
        if type(module) in (nn.ReLU, nn.LeakyReLU) and calls.get(name) == 1 and is_unmodified(module)
    }
    for count in (2, 3) if found else ():
        with torch.no_grad(), record_inputs(net, found) as inputs:
            net(sample.repeat_interleave(count, 0))
        found = {name: slope for name, slope in found.items() if len(inputs[name]) == count}
    return found


@contextmanager
def record_inputs(net: nn.Module, names: Mapping[str, float]) -> Iterator[dict[str, Tensor]]:
    """Within it what each of these modules is given is kept, by name."""
    kept: dict[str, Tensor] = {}
    with ExitStack() as stack:
        for name, module in net.named_modules():
            if name in names:

                def keep(_: nn.Module, given: tuple[Tensor, ...], name: str = name) -> tuple[Tensor, ...]:
                    kept[name] = given[0]
                    return (given[0].clone(),)

                stack.callback(module.register_forward_pre_hook(keep).remove)
        yield kept


def count_units(net: nn.Module, sample: Tensor) -> int:
    """How many units whose slopes may be free one sample (1, …) has."""
    (inputs,) = _inputs(net, sample, kinked_modules(net, sample), 1)
    return sum(z.numel() for z in inputs.values())


def find_kinks(net: nn.Module, x: Tensor, *, tolerance: float, chunk: int) -> KinkSlopes | None:
    """Units whose input is within ``tolerance`` of zero, relative to the largest that the unit has on these points.

    An input that is rounding beside the others of its layer counts as zero too: a unit may see none of the points.
    Units begin with the slope that autograd gives them. None where no unit is at its kink.
    """
    modules = kinked_modules(net, x[:1])
    if not modules or not tolerance > 0:
        return None
    sizes: dict[str, Tensor] = {}
    for inputs in _inputs(net, x, modules, chunk):
        for name, z in inputs.items():
            largest = _per_unit(z)
            sizes[name] = torch.maximum(sizes[name], largest) if name in sizes else largest
    at: dict[str, list[Tensor]] = {name: [] for name in modules}
    slope: dict[str, list[Tensor]] = {name: [] for name in modules}
    for inputs in _inputs(net, x, modules, chunk):
        for name, z in inputs.items():
            scale = (tolerance * sizes[name]).clamp(min=_ROUNDING * float(sizes[name].max()))
            at[name].append(z.abs() <= scale)
            slope[name].append(torch.where(z > 0, 1.0, modules[name]).to(z))
    found = KinkSlopes(
        {name: torch.cat(parts) for name, parts in at.items()},
        {name: torch.cat(parts) for name, parts in slope.items()},
    )
    return found if bool(found.rows.any()) else None


def _inputs(
    net: nn.Module, x: Tensor, modules: Mapping[str, float], chunk: int
) -> Iterator[dict[str, Tensor]]:
    for rows in slices(len(x), chunk):
        with torch.no_grad(), record_inputs(net, modules) as kept:
            net(x[rows])
        yield dict(kept)


def _per_unit(z: Tensor) -> Tensor:
    """The largest |z| of every unit over the points, and of a channel over its positions, as (1, C, 1, …)."""
    positions = tuple(range(2, z.dim()))
    return z.abs().amax(dim=(0, *positions), keepdim=True)
