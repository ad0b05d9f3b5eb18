"""Recorded steps as operations, one after the other; LayerNorm and softmax as the several that they are."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from undertow.adversary.certificates.activation_curves import curve_of
from undertow.adversary.certificates.aten_rules import (
    ENTRYWISE,
    JOINT,
    KEEPING_ORDER,
    LINEAR,
    REARRANGING,
    Template,
    adaptive_members,
    clamp_ends,
    convolution_windows,
    fast_forward,
    fast_transposed,
    matrix_of,
    pooling_windows,
    window_members,
)
from undertow.adversary.certificates.map_checks import checked_map
from undertow.adversary.certificates.normalisation_maps import BATCH_NORMS, batch_norm, layer_norm
from undertow.adversary.certificates.operations import (
    AffineMap,
    CurveOf,
    InputValue,
    LargestOf,
    Operation,
    ProductOf,
)
from undertow.adversary.certificates.recorded_graph import Recorded, UnreadableError
from undertow.adversary.certificates.rewritten_steps import rewritten
from undertow.adversary.certificates.score_masks import (
    MaskedScores,
    carries_mask,
    mask_of,
    moving_entries,
    unmasked,
)
from undertow.adversary.certificates.softmax_maps import SOFTMAX, softmax

__all__ = ["GraphBuilder"]


class GraphBuilder:
    """Holds what has been read: ``operations``, and in ``depends`` which of them a recorded tensor is.

    ``unread`` says why a tensor could not be read; that matters where the scores depend on it. ``masked`` has the
    tensors that are scores with a mask, which a softmax may be given also where they are infinite.
    """

    def __init__(self, start: Tensor) -> None:
        self.device = start.device
        self.operations: list[Operation] = [InputValue(tuple(start.shape))]
        self.depends: dict[int, int] = {id(start): 0}
        self.unread: dict[int, str] = {}
        self.masked: dict[int, MaskedScores] = {}
        self.alive: list[Recorded] = []  # an id is a name only while the tensor lives

    def add(self, step: Recorded) -> None:
        """Read one step; what scores do not depend on may be unreadable."""
        for part in rewritten(step, self._known):
            self.alive.append(part)
            self._add(part)

    def _known(self, given: object) -> bool:
        return id(given) in self.depends or id(given) in self.unread

    def _add(self, step: Recorded) -> None:
        several = step.several and step.name in REARRANGING
        for item, result in enumerate(step.results):
            if not several and item > 0:
                self.unread[id(result)] = f"{step.name} gives more than one result, which is used"
                continue
            try:
                masked = self._masked(step, item, tuple(result.shape))
                if masked is not None:
                    self.masked[id(result)] = masked
                self.depends[id(result)] = self._result(step, item, tuple(result.shape))
            except UnreadableError as unreadable:
                self.unread[id(result)] = str(unreadable)

    def _result(self, step: Recorded, item: int, shape: tuple[int, ...]) -> int:
        given = tree_flatten((step.args, step.kwargs))[0]
        if step.name in SOFTMAX and id(given[0]) in self.masked:
            return softmax(self, Template(step, self._without_masks()), self.masked[id(given[0])])
        for part in given:
            if id(part) in self.masked and id(part) not in self.depends:
                raise UnreadableError(
                    f"{step.name} is given entries of −∞, which a softmax alone may be given"
                )
            if id(part) in self.unread:
                raise UnreadableError(self.unread[id(part)])
        return self._read(Template(step, self.depends, item), shape)

    def _without_masks(self) -> dict[int, int]:
        """Which operation a tensor is, without its mask if it has one."""
        return self.depends | {at: masked.base for at, masked in self.masked.items()}

    def _masked(self, step: Recorded, item: int, shape: tuple[int, ...]) -> MaskedScores | None:
        """The result as scores and a mask; None where it is not that."""
        leaves = tree_flatten((step.args, step.kwargs))[0]
        if any(id(part) in self.unread and id(part) not in self.masked for part in leaves):
            return None
        template = Template(step, self._without_masks(), item)
        base, masks = unmasked(template), [self.masked.get(id(leaves[at])) for at in template.places]
        if not carries_mask(template) or (base is template and not any(masks)):
            return None
        zeros = [torch.zeros(part, dtype=torch.float64, device=self.device) for part in template.shapes]
        pairs = list(zip(masks, zeros, strict=True))
        mask = mask_of(template, [zero if own is None else own.mask for own, zero in pairs])
        if mask is None:
            return None
        moving = moving_entries(template, [zero + 1 if own is None else own.moving for own, zero in pairs])
        return MaskedScores(self._affine(base, shape), mask, moving)

    def output(self, result: Tensor) -> int:
        """Which operation the scores are."""
        if id(result) in self.unread:
            raise UnreadableError(self.unread[id(result)])
        if id(result) not in self.depends:
            raise UnreadableError("its scores do not depend on the input, or in a way that was not recorded")
        return self.depends[id(result)]

    def _read(self, template: Template, shape: tuple[int, ...]) -> int:
        name, depending = template.name, template.depending()
        single = len(template.places) == 1
        if (
            (name in JOINT and not (name == "where" and 0 in depending))
            or (name in LINEAR and depending == [0])
            or (name in ("mul", "mm", "bmm", "mv", "dot") and single)
            or (name in ("addmm", "baddbmm", "addmv") and not {1, 2} <= set(depending))
        ):
            return self._affine(template, shape)
        if name in BATCH_NORMS and depending == [0]:
            return batch_norm(self, template)
        if name in ("max_pool2d_with_indices", "max_pool3d_with_indices"):
            return self._pooling(template, shape)
        if name in ("adaptive_max_pool2d", "adaptive_max_pool3d"):
            return self._largest(template, adaptive_members(template.shapes[0], shape), shape)
        if name == "amax" or (name == "max" and depending == [0]):
            return self._amax(template, shape)
        if name in SOFTMAX:
            return softmax(self, template, None)
        if name == "native_layer_norm" and depending == [0]:
            return layer_norm(self, template)
        if name in ("mm", "bmm") or (name == "mul" and template.inputs[0] != template.inputs[1]):
            return self.product(template.inputs, shape, matrices=name != "mul")
        return self._activation(template, shape)

    def _append(self, operation: Operation) -> int:
        self.operations.append(operation)
        return len(self.operations) - 1

    def _affine(self, template: Template, shape: tuple[int, ...]) -> int:
        zeros = [torch.zeros(part, dtype=torch.float64, device=self.device) for part in template.shapes]
        offset = template(*zeros)
        if not bool(offset.isfinite().all()):
            raise UnreadableError(f"{template.name} adds what is not finite")
        if template.name == "div" and template.argument(2) is not None:
            raise UnreadableError("a division that rounds has no linear bounds")
        windows = convolution_windows(template)
        read = AffineMap(
            shape=shape,
            inputs=template.inputs,
            apply=template,
            absolute=template.absolute,
            input_shapes=template.shapes,
            offset=offset if bool((offset != 0).any()) else None,
            transposed=fast_transposed(template),
            transposed_absolute=fast_transposed(template, torch.abs),
            fast_values=fast_forward(template, shape),
            fast_sizes=fast_forward(template, shape, torch.abs),
            rearranges=template.name in REARRANGING,
            matrix=matrix_of(template),
            kernel=None if windows is None else template.argument(1),
            windows=windows,
            keeps_order=template.name in KEEPING_ORDER,
            entrywise=template.name in ENTRYWISE and set(template.shapes) == {shape},
            kind=template.kind,
            constants=template.constants,
        )
        return self._append(checked_map(read, self.device))

    def made(
        self,
        at: int,
        apply: Callable[[Tensor], Tensor],
        absolute: Callable[[Tensor], Tensor],
        *,
        kind: tuple[object, ...],
        constants: tuple[Tensor, ...] = (),
        entrywise: bool = False,
    ) -> int:
        """An affine map that is a part of a recorded operation."""
        shape = self.operations[at].shape
        offset = apply(torch.zeros(shape, dtype=torch.float64, device=self.device))
        return self._append(
            AffineMap(
                shape=tuple(offset.shape),
                inputs=(at,),
                apply=apply,
                absolute=absolute,
                input_shapes=(shape,),
                offset=offset if bool((offset != 0).any()) else None,
                entrywise=entrywise,
                kind=kind,
                constants=constants,
            )
        )

    def _largest(self, template: Template, members: Tensor, shape: tuple[int, ...]) -> int:
        entries = math.prod(template.shapes[0])
        return self._append(LargestOf(shape, template.inputs, members.to(self.device), entries))

    def _pooling(self, template: Template, shape: tuple[int, ...]) -> int:
        windows = pooling_windows(template)
        members = window_members(windows, template.shapes[0], shape)
        if len(windows.size) != 2:
            return self._largest(template, members, shape)
        entries = math.prod(template.shapes[0])
        return self._append(LargestOf(shape, template.inputs, members.to(self.device), entries, windows))

    def _amax(self, template: Template, shape: tuple[int, ...]) -> int:
        inputs = template.shapes[0]
        named = template.argument(1)
        named = [named] if isinstance(named, int) else named or range(len(inputs))
        axes = sorted({axis % len(inputs) for axis in named})
        numbers = torch.arange(torch.Size(inputs).numel()).reshape(inputs)
        rest = [axis for axis in range(len(inputs)) if axis not in axes]
        ordered = numbers.permute(*rest, *axes)
        return self._largest(template, ordered.reshape(torch.Size(shape).numel(), -1), shape)

    def curve(self, at: int, name: str, arguments: tuple[float, ...] = ()) -> int:
        """A curve that is a part of a recorded operation."""
        curve = curve_of(name, arguments)
        assert curve is not None
        return self._append(CurveOf(self.operations[at].shape, (at,), curve, kind=(name, *arguments)))

    def product(self, inputs: tuple[int, ...], shape: tuple[int, ...], *, matrices: bool) -> int:
        if not matrices:  # broadcast both factors first, so that the product is entry by entry
            inputs = tuple(
                at if self.operations[at].shape == shape else self._broadcast(at, shape) for at in inputs
            )
        return self._append(ProductOf(shape, inputs, matrices))

    def _broadcast(self, at: int, shape: tuple[int, ...]) -> int:
        return self.made(
            at, lambda v: v.expand(shape) + 0.0, lambda m: m.expand(shape) + 0.0, kind=("broadcast", shape)
        )

    def _activation(self, template: Template, shape: tuple[int, ...]) -> int:
        name = template.name
        slopes = template.argument(1) if name == "_prelu_kernel" and template.depending() == [0] else None
        arguments = tuple(leaf for leaf in template.leaves if isinstance(leaf, int | float | str))
        if name in ("clamp", "clamp_min", "clamp_max"):
            name, arguments = "clamp", clamp_ends(template)
        if name == "pow" and arguments == (2,):
            name = "square"
        if name == "mul" and len(set(template.inputs)) == 1:
            name = "square"
        curve = curve_of(name, arguments, slopes)
        if curve is None or len(set(template.inputs)) != 1:
            raise UnreadableError(f"the operation {template.name} has no known linear bounds")
        constants = () if slopes is None else (slopes,)
        return self._append(CurveOf(shape, template.inputs[:1], curve, (name, arguments), constants))
