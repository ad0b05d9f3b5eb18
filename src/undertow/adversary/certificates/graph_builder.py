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
    clamp_ends,
    convolution_windows,
    fast_forward,
    fast_transposed,
    matrix_of,
    pooling_windows,
)
from undertow.adversary.certificates.largest_members import largest_members
from undertow.adversary.certificates.least_values import above_domain
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
from undertow.adversary.certificates.written_curves import written_curve

__all__ = ["GraphBuilder"]

_POWERS: dict[tuple[float | str, ...], str] = {
    (2,): "square",
    (3,): "cube",
    (0.5,): "sqrt",
    (-0.5,): "rsqrt",
    (-1,): "reciprocal",
}


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
        self.of_batch = False  # whether statistics of one sample may be those of a batch
        self.alive: list[Recorded] = []  # an id is a name only while the tensor lives

    def add(self, step: Recorded) -> None:
        """Read one step; what scores do not depend on may be unreadable."""
        parts = rewritten(step, self._known)
        self.of_batch |= step.name in BATCH_NORMS and len(parts) > 1
        for part in parts:
            self.alive.append(part)
            self._add(part)

    def _known(self, given: object) -> bool:
        return id(given) in self.depends or id(given) in self.unread

    def _add(self, step: Recorded) -> None:
        several = step.several and step.name in REARRANGING
        for item, result in enumerate(step.results):
            masked: MaskedScores | None = None
            found: int | str = f"{step.name} gives more than one result, which is used"
            if several or item == 0:
                try:
                    masked = self._masked(step, item, step.shape(item))
                    found = self._result(step, item, masked)
                except UnreadableError as unreadable:
                    found = str(unreadable)
                except (RuntimeError, TypeError, ValueError, IndexError) as error:
                    found = f"{step.name} could not be read ({str(error).partition(chr(10))[0]})"
            self._name(result, found, masked)

    def _name(self, result: Tensor, found: int | str, masked: MaskedScores | None) -> None:
        """What a recorded tensor is from now on: it may have been another before it was changed in place."""
        for table in (self.depends, self.unread, self.masked):
            table.pop(id(result), None)
        if isinstance(found, int):
            self.depends[id(result)] = found
        else:
            self.unread[id(result)] = found
        if masked is not None:
            self.masked[id(result)] = masked

    def _result(self, step: Recorded, item: int, masked: MaskedScores | None) -> int:
        given = tree_flatten((step.args, step.kwargs))[0]
        if step.name in SOFTMAX and id(given[0]) in self.masked:
            return softmax(self, self._template(step, 0, masks=False), self.masked[id(given[0])])
        if masked is not None and not bool((masked.mask != 0).any()):
            return masked.base  # a part of the scores that has none of the mask
        for part in given:
            if id(part) in self.masked and id(part) not in self.depends:
                raise UnreadableError(
                    f"{step.name} is given entries of −∞, which a softmax alone may be given"
                )
            if id(part) in self.unread:
                raise UnreadableError(self.unread[id(part)])
        return self._read(self._template(step, item), step.shape(item))

    def _template(self, step: Recorded, item: int, *, masks: bool = True) -> Template:
        """The step with places for operations; those of scores are known without their masks, too."""
        bases = {} if masks else {at: masked.base for at, masked in self.masked.items()}
        found = Template(step, self.depends | bases, item)
        # a tensor that was transposed in place has another shape by now
        found.shapes = tuple(self.operations[at].shape for at in found.inputs)
        return found

    def _masked(self, step: Recorded, item: int, shape: tuple[int, ...]) -> MaskedScores | None:
        """The result as scores and a mask; None where it is not that."""
        leaves = tree_flatten((step.args, step.kwargs))[0]
        if any(id(part) in self.unread and id(part) not in self.masked for part in leaves):
            return None
        template = self._template(step, item, masks=False)
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
        members = largest_members(template, shape) if depending == [0] else None
        if members is not None:
            windows = pooling_windows(template) if name == "max_pool2d_with_indices" else None
            entries = math.prod(template.shapes[0])
            return self._append(LargestOf(shape, template.inputs, members.to(self.device), entries, windows))
        if name in SOFTMAX:
            return softmax(self, template, None)
        if name == "native_layer_norm" and depending == [0]:
            return layer_norm(self, template)
        if name in ("mm", "bmm") or (name == "mul" and template.inputs[0] != template.inputs[1]):
            written = written_curve(self, template.inputs) if name == "mul" else None
            return written or self.product(template.inputs, shape, matrices=name != "mul")
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

    def curve(self, at: int, name: str, arguments: tuple[float | str, ...] = ()) -> int:
        """A curve that is a part of a recorded operation."""
        curve = curve_of(name, arguments)
        assert curve is not None
        at = above_domain(self, at, curve.domain)
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
        if name == "pow" and template.depending() == [0] and arguments in _POWERS:
            name, arguments = _POWERS[arguments], ()
        if name == "mul" and len(set(template.inputs)) == 1:
            name = "square"
        curve = curve_of(name, arguments, slopes)
        if curve is None or len(set(template.inputs)) != 1:
            raise UnreadableError(f"the operation {template.name} has no known linear bounds")
        constants, at = (
            () if slopes is None else (slopes,),
            above_domain(self, template.inputs[0], curve.domain),
        )
        return self._append(CurveOf(shape, (at,), curve, (name, arguments), constants))
