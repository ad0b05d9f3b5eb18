"""What can be measured, and the sentence that says what to do when it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from undertow.core.adapting import adapted
from undertow.core.enclosing import rows_of
from undertow.core.errors import InputError, ModelError
from undertow.core.network_copies import copy_in
from undertow.core.outputs import OutputChoice
from undertow.core.plain_words import check_tensor, in_plain_words, no_gradient_words
from undertow.core.unwrapping import unwrapped
from undertow.jacobian.trace import leave_no_trace

__all__ = ["PLACE_MATTERS", "Network", "check_input", "check_network", "prepare", "refuse_train_mode"]

Network: TypeAlias = Callable[[Tensor], Tensor]

PLACE_MATTERS = (
    "the network treats a sample by its place in the batch: the same samples in another order or number give other "
    "outputs, as with a mask or a buffer of one row per sample. Measure the samples one by one, each with its own "
    "row: [ut.jacobian_norms(lambda x: net(x, mask[i : i + 1]), x[i : i + 1]) for i in range(len(x))]."
)
_BATCH_NORMS = (nn.modules.batchnorm._BatchNorm,)
_DROPOUTS = (nn.modules.dropout._DropoutNd,)
_COARSE = (torch.float16, torch.bfloat16)


def check_input(x: Tensor) -> None:
    """Refuse what is not a non-empty, finite, floating batch (N, …)."""
    check_tensor(x)
    if not x.is_floating_point():
        raise InputError(f"x has dtype {x.dtype}, which has no derivative: pass x.float().")
    if x.layout is not torch.strided:
        raise InputError(
            f"x is stored as {x.layout}, whose products are not those of a batch: pass x.to_dense()."
        )
    if x.dim() < 1 or x.shape[0] == 0:
        raise InputError("x is an empty batch: pass at least one sample, shape (N, …).")
    if x[0].numel() == 0:
        raise InputError(f"x has shape {tuple(x.shape)}: every sample is empty.")
    if not bool(torch.isfinite(x).all()):
        bad = (
            int((~torch.isfinite(x)).flatten(1).any(1).sum())
            if x.dim() > 1
            else int((~torch.isfinite(x)).sum())
        )
        raise InputError(f"x holds NaN or Inf in {bad} of {x.shape[0]} samples: remove or repair them first.")


def prepare(
    f: Network,
    x: Tensor,
    dtype: torch.dtype | None,
    *,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
) -> tuple[Network, Tensor]:
    """``f`` as a function of one floating tensor, and ``x``, in one dtype on one device.

    A copy of the network is cast, never the user's own; half precision, too coarse for an error bound, is measured
    as a copy in float32. ``output`` says which of several outputs is meant, ``extras`` what the network takes beside
    x, a row for each sample.
    """
    floating: list[Tensor] = []
    if isinstance(f, nn.Module):
        f = unwrapped(f)
        floating = [t for t in (*f.parameters(), *f.buffers()) if t.is_floating_point()]
    elif not callable(f):
        raise InputError(f"f must be a torch.nn.Module or a function of one tensor, not {type(f).__name__}.")
    elif output is not None or extras:
        raise InputError("output= and extras= are for modules: let the function itself choose and pass them.")
    if dtype is None and any(t.dtype in _COARSE for t in (*floating, x) if isinstance(t, Tensor)):
        dtype = torch.float32
    if dtype is not None:
        if dtype not in (torch.float32, torch.float64):
            raise InputError(f"dtype must be torch.float32 or torch.float64, not {dtype}.")
        x = x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x
    elsewhere = next((t for t in floating if isinstance(x, Tensor) and t.device != x.device), None)
    if elsewhere is not None:
        raise InputError(
            f"x is on {x.device} but the network is on {elsewhere.device}: "
            f"move one of them, for example x.to({str(elsewhere.device)!r})."
        )
    tokens = (
        isinstance(x, Tensor) and not x.is_floating_point() and x.numel() > 0 and isinstance(f, nn.Module)
    )
    if not tokens:
        check_input(x)
    wanted = (dtype or next((t.dtype for t in floating), torch.float32)) if tokens else x.dtype
    other = next((t.dtype for t in floating if t.dtype != wanted), None)
    if other is not None:
        if dtype is None:
            raise InputError(
                f"x has dtype {x.dtype} but the network holds {other}: pass dtype=torch.float32 or "
                "dtype=torch.float64 to measure a copy in that precision."
            )
        f = copy_in(f, dtype)  # type: ignore[type-var]
    if not isinstance(f, nn.Module):
        return f, x
    if tokens or output is not None or extras:
        refuse_train_mode(f)
    with leave_no_trace(f, device=x.device):
        return adapted(f, x, output=output, extras=extras)


def check_network(f: Network, x: Tensor) -> Tensor:
    """Refuse train-mode layers, wrong outputs, randomness and dependence between samples.

    Returns the network's output on a handful of samples. Batched products are every sample's own
    product only if row i of the output depends on row i of the input alone, so that is verified by a
    gradient: a cotangent on some rows must leave exactly zero on the others. (Its place in the batch must not matter
    either: see :mod:`undertow.jacobian.precisions`.)
    """
    refuse_train_mode(f)
    whole, chosen = f, torch.arange(min(len(x), 4))
    if len(chosen) == 1:
        chosen = torch.zeros(2, dtype=torch.int64)
    few, f = x[chosen.to(x.device)].detach(), rows_of(f, chosen)
    leaf = few.clone().requires_grad_()
    try:
        output = f(leaf.clone())
    except (RuntimeError, IndexError, ValueError, TypeError, AssertionError):
        f, few = whole, _refuse_parts(whole, x)
        leaf = few.clone().requires_grad_()
        output = f(leaf.clone())
    if not isinstance(output, Tensor):
        raise ModelError(
            f"the function returns {type(output).__name__}, not one tensor: let it return one of them, for example "
            "lambda x: net(x)[0]."
        )
    if output.dim() < 1 or output.shape[0] != few.shape[0]:
        raise ModelError(
            f"for {few.shape[0]} samples the network returns shape {tuple(output.shape)}: its first axis "
            "must be the samples."
        )
    if not output.is_floating_point():
        raise ModelError(f"the network returns {output.dtype}: measure its logits, not its decisions.")
    if not bool(torch.isfinite(output).all()):
        raise ModelError("the network's output holds NaN or Inf: nothing can be measured on it.")
    again = f(few.clone())
    if not torch.allclose(output, again, rtol=1e-3, atol=1e-5 * float(output.detach().abs().max())):
        raise ModelError(
            "two passes over the same input differ: the network is random; call net.eval() first."
        )
    # The graph of an output may be that of the last layers' weights alone.
    if not output.requires_grad or not _reaches_input(output, leaf):
        _refuse_detached(f, few, output)
    return output.detach()


def _refuse_parts(f: Network, x: Tensor) -> Tensor:
    """The samples as they are where the network takes no other number of them; raises where it takes those only."""
    with torch.no_grad(), in_plain_words(x):
        f(x.detach().clone())  # what is wrong with the network itself shows here again
    if x.dim() == 1 and len(x) > 1:
        raise ModelError(
            f"the network takes x of shape {tuple(x.shape)} as one sample: pass x[None], a batch of it."
        )
    if len(x) > 1:
        raise ModelError(
            f"the network takes these {len(x)} samples and no other number of them: one that was exported needs a "
            "batch of any size (dynamic_shapes=…); one with a mask or a buffer of one row per sample is measured "
            "sample by sample, each with its own row: [ut.jacobian_norms(lambda x: net(x, mask[i : i + 1]), "
            "x[i : i + 1]) for i in range(len(x))]."
        )
    return x.detach()


def refuse_train_mode(f: Network) -> None:
    """Refuse layers that make samples depend on each other, or outputs on chance, while they train."""
    if not isinstance(f, nn.Module):
        return
    for name, module in f.named_modules():
        if not module.training:
            continue
        if isinstance(module, _BATCH_NORMS):
            raise ModelError(
                f"{name or 'the network'} is a {type(module).__name__} in train mode, where every sample depends "
                "on the whole batch: call net.eval() before measuring and net.train() after."
            )
        if isinstance(module, _DROPOUTS) and module.p > 0:
            raise ModelError(
                f"{name or 'the network'} is a {type(module).__name__} in train mode, so the network is random: "
                "call net.eval() before measuring and net.train() after."
            )


def _reaches_input(output: Tensor, leaf: Tensor) -> bool:
    """Whether the gradient of the output reaches the input at all; refused where it goes from one sample to another."""
    reached = False
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(output.shape, generator=generator, dtype=output.dtype).to(output.device)
    for rows in (
        0,
        1,
    ):  # the even rows of the output must leave nothing on the odd samples, and the other way round
        cotangent = weights.clone()
        cotangent[1 - rows :: 2] = 0
        try:
            (gradient,) = torch.autograd.grad(
                output, leaf, cotangent, allow_unused=True, retain_graph=rows == 0
            )
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            raise ModelError(no_gradient_words(error)) from error
        reached |= gradient is not None
        if gradient is not None and bool(gradient[1 - rows :: 2].count_nonzero()):
            raise ModelError(
                "an output row depends on other samples of the batch (a normalisation over the batch, or a sum over "
                "the first axis), so there is no per-sample Jacobian: use running statistics (net.eval()), or a "
                "normalisation within the sample."
            )
    return reached


def _refuse_detached(f: Network, few: Tensor, output: Tensor) -> None:
    """An output without a gradient must be a constant, or its Jacobian would be taken for zero."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(few.shape, generator=generator, dtype=few.dtype).to(few.device)
    moved = f(few + 0.01 * few.abs().max().clamp_min(1e-3) * noise)
    if not torch.allclose(output, moved, rtol=1e-6, atol=0):
        raise ModelError(
            "the network's output changes with its input but carries no gradient: it is computed under "
            "torch.no_grad() or detached inside the network; remove that to measure it."
        )
