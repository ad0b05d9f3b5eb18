"""What a network did with its samples, or to a gradient, in a sentence with what to try."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from undertow.core.errors import InputError, ModelError, UndertowError

__all__ = ["check_tensor", "gradients_in_plain_words", "in_plain_words", "no_gradient_words"]


_LABELS = ("labels", "label", "y", "targets")


def check_tensor(x: object, name: str = "x") -> None:
    """Refuse samples, or labels, that are not a tensor.

    >>> check_tensor([1.0])
    Traceback (most recent call last):
    undertow.core.errors.InputError: x must be a torch.Tensor of shape (N, …), not list: use torch.as_tensor(x).
    """
    if isinstance(x, Tensor):
        if x.is_meta:
            raise InputError(
                f"{name} is on the meta device, which holds no numbers: give it as it is on another."
            )
        if x.is_nested:
            raise InputError(
                f"{name} is a nested tensor, of samples of several sizes: pad them, {name}.to_padded_tensor(0.0), and "
                "pass a mask as extras={'mask': rows}."
            )
        if torch._C._functorch.is_functorch_wrapped_tensor(x):
            raise InputError(
                f"{name} is inside torch.func (vmap, grad, …), where nothing can be measured: call undertow outside. "
                "What a loss may hold of a Jacobian is in undertow.training, JacobianPenalty for one."
            )
        return
    remedy = f"use torch.as_tensor({name})"
    if isinstance(x, Mapping):
        tensors = [str(key) for key, value in x.items() if isinstance(value, Tensor)]
        first, others = next(iter(tensors), "x"), [key for key in tensors[1:] if key not in _LABELS]
        more = "".join(f"{key!r}: batch[{key!r}], " for key in others).rstrip(", ")
        remedy = f"pass the tensor of samples in it, batch[{first!r}]"
        remedy += (
            f", and what else the network takes, where there is extras=…, as extras={{{more}}}"
            if more
            else ""
        )
    elif isinstance(x, Iterable) and not isinstance(x, Sequence) and not hasattr(x, "__array__"):
        remedy = "take one batch of it, x, y = next(iter(loader)), or torch.cat several"
    raise InputError(f"{name} must be a torch.Tensor of shape (N, …), not {type(x).__name__}: {remedy}.")


@contextmanager
def in_plain_words(x: Tensor) -> Iterator[None]:
    """What goes wrong inside is told as what a network said of the samples ``x``; want of memory is not.

    >>> with in_plain_words(torch.ones(2, 5)):  # doctest: +ELLIPSIS
    ...     torch.nn.Linear(3, 1)(torch.ones(2, 5))
    Traceback (most recent call last):
    undertow.core.errors.ModelError: the network cannot take x of shape (2, 5) and dtype torch.float32: ...
    """
    try:
        yield
    except (UndertowError, torch.OutOfMemoryError):
        raise
    except (RuntimeError, ValueError, IndexError, TypeError, AssertionError) as error:
        said = str(error).strip().splitlines()
        alone = " (a single sample is x[None])" if x.dim() == 1 else ""
        raise ModelError(
            f"the network cannot take x of shape {tuple(x.shape)} and dtype {x.dtype}{alone}: compare them with what "
            "it was trained on, and pass what else it needs for each sample as extras={'name': rows}. It says: "
            f"{type(error).__name__}: {said[0] if said else ''}"
        ) from error


_DETACHED = ("does not have a grad_fn", "not have been used in the graph")
_IMPOSSIBLE = ("inplace operation", "derivative for", "is not differentiable")


@contextmanager
def gradients_in_plain_words() -> Iterator[None]:
    """What a network did to a gradient that an attack takes inside is told; other faults are left as they are."""
    try:
        yield
    except RuntimeError as error:
        said = str(error)
        if any(words in said for words in _DETACHED):
            raise ModelError(
                "no gradient leads from the network's scores to its input, so that no attack can follow one: something "
                "is computed under torch.no_grad() or detached inside the network; remove that to attack it."
            ) from error
        if any(words in said for words in _IMPOSSIBLE):
            raise ModelError(no_gradient_words(error)) from error
        raise


def no_gradient_words(error: BaseException) -> str:
    """What PyTorch said when a gradient was to be taken, as a sentence with what to try."""
    said = str(error).strip().splitlines()[0]
    remedy = "quantised layers need their float originals"
    if "inplace" in said:
        remedy = "an operation overwrites what the gradient of an earlier one needs: write h = h + 1 for h += 1 there"
    return f"no gradient can be taken through the network ({remedy}). PyTorch says: {said}"
