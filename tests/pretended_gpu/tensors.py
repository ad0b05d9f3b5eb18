"""Tensors that say they are on a GPU, around others on the CPU that have their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tests.pretended_gpu.nested import each_tensor, tensors_in
from tests.pretended_gpu.refusals import (
    HostAskedError,
    MixedDevicesError,
    NotOnAGpuError,
    asks_the_host,
    cannot_be,
    mixes,
)
from undertow.core.every_operation import EveryOperation

__all__ = ["GPU", "OnGpu", "Operations", "Requests", "carried_out"]

GPU = torch.device("cuda", 0)
# PyTorch without CUDA has no guard for such a device, which autograd asks for. So inside of PyTorch these tensors are
# on the device "meta", for which nothing is ever computed, and whoever asks in Python is told that they are on the GPU.
_INSIDE = torch.device("meta")
_RESHAPING = {"transpose_", "t_", "squeeze_", "unsqueeze_", "swapaxes_", "swapdims_"}
"""Which leave the values and give the tensor itself another shape."""


class OnGpu(Tensor):
    """A tensor on the pretended GPU; ``held`` has its values."""

    held: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> OnGpu:
        made: OnGpu = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, inner.size(), strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype,
            layout=inner.layout, device=_INSIDE,
        )  # fmt: skip
        made.held = inner
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise RuntimeError(f"{func} of a tensor that has outlived its pretended GPU")


def _is_on_gpu(value: object) -> bool:
    return isinstance(value, OnGpu)


def _sums_of_a_batch_norm(
    cotangent: Tensor, x: Tensor, mean: Tensor, inverse: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    axes = [axis for axis in range(x.dim()) if axis != 1]
    total = cotangent.sum(axes)
    with_x = (cotangent * (x - mean.view(-1, *[1] * (x.dim() - 2)))).sum(axes)
    return total, with_x, with_x * inverse, total


_OTHERWISE: dict[str, Callable[..., Any]] = {
    "batch_norm_backward_reduce": _sums_of_a_batch_norm,  # which a CPU does not have
    "_efficientzerotensor": torch.zeros,
    "_conj": torch.conj_physical,  # marks on tensors are seen above the operations
    "_neg_view": torch.neg,
}


def carried_out(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operation on tensors of the CPU."""
    return _OTHERWISE.get(_name(func), func)(*args, **kwargs)


class Operations(EveryOperation):
    """Carries every operation out on the values, after a look at the devices.

    ``seen`` is told of it, and while a graph is captured ``made`` of every tensor that it gives; whatever waits for the
    device is then refused as well.
    """

    def __init__(
        self,
        seen: Callable[[Any, tuple[Any, ...], dict[str, Any], Any], None],
        made: Callable[[OnGpu], None],
    ) -> None:
        super().__init__()
        self._seen, self._made = seen, made
        self.capturing = False
        self.really_meta = 0
        self.largest: float = float("inf")  # in bytes, that there is memory for
        self.refused: list[RuntimeError] = []
        self.generators: dict[int, torch.Generator] = {}  # those of the GPU

    def refusing(self, error: RuntimeError) -> RuntimeError:
        """The error, noted: whoever tries a capture takes an error for an answer."""
        self.refused.append(error)
        return error

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        there = kwargs.get("device")
        given = tensors_in(args) + tensors_in(kwargs)
        on_gpu = any(map(_is_on_gpu, given))
        wanted = there is not None and torch.device(there) == _INSIDE and not self.really_meta
        if not on_gpu and not wanted:
            return func(*args, **kwargs)
        self._check(func, args, kwargs, given)
        if there is not None:
            kwargs = {**kwargs, "device": torch.device("cpu")}
        inner = each_tensor(_inner, args), each_tensor(_inner, kwargs)
        found = carried_out(func, *inner)
        if _name(func) in _RESHAPING:
            with torch._C._DisableTorchDispatch():
                func(*args, **kwargs)
        self._seen(func, *inner, found)
        stays = on_gpu if there is None else wanted
        if stays and any(_bytes(each) > self.largest for each in tensors_in(found)):
            raise torch.OutOfMemoryError(f"CUDA out of memory: {func}")
        if not stays:
            return found
        outer = _outer(func, args, kwargs, found)
        if self.capturing:
            for each in tensors_in(outer):
                if isinstance(each, OnGpu) and not any(each is other for other in given):
                    self._made(each)
        return outer

    def _check(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], given: list[Tensor]) -> None:
        name, apart = _name(func), [each for each in given if not _is_on_gpu(each)]
        generator = kwargs.get("generator")
        if generator is not None and generator._cdata not in self.generators:
            raise self.refusing(MixedDevicesError(f"{func}: a generator of the CPU draws for the GPU"))
        if len(apart) < len(given) and mixes(func, name, args, apart):
            places = ", ".join(f"{tuple(t.shape)} on the {'GPU' if _is_on_gpu(t) else 'CPU'}" for t in given)
            raise self.refusing(MixedDevicesError(f"{func}: {places}"))
        if cannot_be(name, given):
            raise self.refusing(NotOnAGpuError(f"{func} of {given[0].dtype}"))
        to_cpu = kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cpu"
        if self.capturing and asks_the_host(name, args, apart, to_cpu=to_cpu):
            raise self.refusing(HostAskedError(f"{func} while a graph is being captured"))


def _outer(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], found: Any) -> Any:
    """What was found as tensors on the GPU; those that were written to are the ones that were given."""
    written = {
        name: args[place] if place < len(args) else kwargs.get(argument.name)
        for place, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
        for name in argument.alias_info.before_set
    }
    several = isinstance(found, tuple)
    outer = [
        written[next(iter(told.alias_info.before_set))]
        if told.alias_info is not None and told.alias_info.is_write
        else each_tensor(OnGpu, value)
        for value, told in zip(found if several else (found,), func._schema.returns, strict=False)
    ]
    if not outer:
        return found
    return tuple(outer) if several else outer[0]


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _inner(value: Any) -> Any:
    return value.held if isinstance(value, OnGpu) else value


def _name(func: Any) -> str:
    return str(func.__name__).split(".")[0]


class Requests(TorchFunctionMode):
    """What Python says of devices: "cuda" is the pretended one, and its tensors say so."""

    def __init__(self, operations: Operations) -> None:
        super().__init__()
        self._operations = operations

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        owner = getattr(func, "__self__", None)
        if isinstance(func, torch._ops.OpOverload) or func is torch.device:
            return func(*args, **kwargs)
        if owner in (Tensor.device, Tensor.is_cuda, Tensor.is_cpu, Tensor.is_meta):
            return self._told(owner, args[0])
        if owner is Tensor.data and len(args) > 1 and _is_on_gpu(args[0]):  # type: ignore[comparison-overlap]
            args[0].held = args[1].held
            return func(*args, **kwargs)
        if func is torch._C._nn._parse_to:  # type: ignore[attr-defined]
            device, *others = func(*args, **kwargs)
            like = any(isinstance(each, Tensor) and _is_there(each) for each in (*args, *kwargs.values()))
            return GPU if like else device, *others
        if func is Tensor.tolist and _is_there(args[0]):
            return args[0].cpu().tolist()
        if func in (Tensor.untyped_storage, Tensor.data_ptr) and _is_on_gpu(args[0]):
            return func(args[0].held)
        if func is Tensor.cuda:
            return args[0].to(_INSIDE)
        if func in (Tensor.numpy, Tensor.__array__) and _is_there(args[0]):
            raise self._operations.refusing(
                MixedDevicesError("numpy cannot read from the GPU: Tensor.cpu() first")
            )
        if func in (torch.tensor, torch.as_tensor, Tensor.new_tensor):
            return _put(func, args, kwargs)
        if any(_is_meta(each) for each in (*args[1:], *kwargs.values())):
            self._operations.really_meta += 1
            try:
                return func(*args, **kwargs)
            finally:
                self._operations.really_meta -= 1
        return func(*map(_there, args), **{name: _there(value) for name, value in kwargs.items()})

    @staticmethod
    def _told(owner: Any, tensor: Tensor) -> Any:
        there = _is_there(tensor)
        if owner is Tensor.device:
            return GPU if there else tensor.device
        return owner is Tensor.is_cuda if there else owner.__get__(tensor)


def _is_there(tensor: Tensor) -> bool:
    mapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return tensor.is_meta and (_is_on_gpu(tensor) or mapped)


def _put(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Tensors of Python's numbers are made on the CPU and then moved, as PyTorch does."""
    device, requires_grad = kwargs.pop("device", None), kwargs.pop("requires_grad", False)
    if func is Tensor.new_tensor:
        device = args[0].device if device is None else device
        args, kwargs, func = args[1:], {"dtype": args[0].dtype, **kwargs}, torch.tensor
    # What is a tensor already may lie anywhere.
    made = func(*args, **kwargs) if device is None or not isinstance(args[0], Tensor) else args[0]
    made = made if device is None else made.to(_there(device), kwargs.get("dtype"))
    return made.requires_grad_() if requires_grad else made


def _is_meta(value: object) -> bool:
    return (isinstance(value, torch.device) and value.type == "meta") or (
        isinstance(value, str) and value == "meta"
    )


def _there(value: Any) -> Any:
    if isinstance(value, torch.device):
        return _INSIDE if value.type == "cuda" else value
    return _INSIDE if isinstance(value, str) and value.partition(":")[0] == "cuda" else value
