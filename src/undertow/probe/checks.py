"""What a probe can be given, and the sentence that says what to do when it cannot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError, UndertowError
from undertow.core.plain_words import in_plain_words
from undertow.measures.reading import Reading

__all__ = [
    "check_dtype",
    "check_measures",
    "check_points",
    "check_sinks",
    "check_training",
    "network_explained",
    "readings_of",
]


def check_points(net: nn.Module, x: Tensor, y: Tensor | None) -> None:
    """Refuse what is not a module, a batch of points and, where there are any, a label for each."""
    if not isinstance(net, nn.Module):
        raise InputError(
            f"net must be a torch.nn.Module, not {type(net).__name__}: put the function into a module's forward."
        )
    if not isinstance(x, Tensor):
        raise InputError(
            f"x must be a torch.Tensor of shape (N, …), not {type(x).__name__}: a probe measures on the same "
            "points every time, such as one batch of a loader, x, y = next(iter(loader))."
        )
    if x.dim() == 0 or len(x) == 0:
        raise InputError(
            f"x has shape {tuple(x.shape)}, which holds no points: give a tensor (N, …) with one or more."
        )
    if y is None:
        return
    if not isinstance(y, Tensor):
        raise InputError(f"y must be a torch.Tensor, not {type(y).__name__}: use torch.as_tensor(y).")
    if y.shape[:1] != x.shape[:1]:
        raise InputError(
            f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}: give one label for each sample."
        )


def check_training(training: Any) -> None:
    """Refuse what does not say what is trained on, and how fast."""
    if training is None:
        return
    try:
        x, y, rate = training
        float(rate)
        usable = isinstance(x, Tensor) and isinstance(y, Tensor)
    except (TypeError, ValueError):
        usable = False
    if not usable:
        raise InputError(
            "training is what is trained on, and the rate of the first step: training=(x, y, 0.1), two tensors and a "
            "number."
        )


def check_dtype(dtype: torch.dtype | None) -> None:
    """Refuse a precision in which nothing is measured."""
    if dtype not in (None, torch.float32, torch.float64):
        raise InputError(f"dtype must be torch.float32 or torch.float64, not {dtype}.")


def check_measures(measures: Sequence[Any]) -> None:
    """Refuse what is not a sequence of measures, each with a schedule of its own or without."""
    if not isinstance(measures, Sequence) or isinstance(measures, str):
        raise InputError(f"measures must be a list, not {type(measures).__name__}: write measures=[…].")
    if not measures:
        raise InputError("a probe without measures records nothing: give one, e.g. StableRank().")
    for each in measures:
        measure = each[0] if isinstance(each, tuple) and len(each) == 2 else each
        if isinstance(measure, type):
            raise InputError(
                f"{measure.__name__} is the class of a measure: make one of it, {measure.__name__}()."
            )
        if isinstance(measure, str):
            raise InputError(
                f"{measure!r} is a name: undertow.probe.measure({measure!r}) makes the measure of it."
            )
        if not hasattr(measure, "name") or not (callable(measure) or hasattr(measure, "begin")):
            raise InputError(
                f"{measure!r} is not a measure: it needs a name and a call that yields (key, value, error)."
            )


def check_sinks(sinks: Sequence[Any]) -> None:
    """Refuse what cannot be called with records."""
    if not isinstance(sinks, Sequence) or isinstance(sinks, str):
        raise InputError(f"sinks must be a list, not {type(sinks).__name__}: write sinks=[…].")
    for sink in sinks:
        if isinstance(sink, type):
            raise InputError(f"{sink.__name__} is the class of a sink: make one of it, {sink.__name__}(…).")
        if hasattr(sink, "sink") and not callable(sink):
            raise InputError(
                f"{sink!r} holds many trials: sinks=[store.sink('my-loop', config={{…}})] makes one of this loop."
            )
        if not callable(sink):
            raise InputError(
                f"{sink!r} is no sink: it has to be called with a list of records. Csv(path), TensorBoard(writer) and "
                "Log(function) of undertow.probe.adapters can be."
            )


@contextmanager
def network_explained(net: nn.Module, x: Tensor) -> Iterator[None]:
    """Where a measure fails since the network cannot take ``x``, a sentence; what else goes wrong is left as it is."""
    try:
        yield
    except (UndertowError, torch.OutOfMemoryError):
        raise
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        with torch.no_grad():
            try:
                net(x)
            except RuntimeError:
                own = {p.dtype for p in net.parameters() if p.is_floating_point()}
                if x.is_floating_point() and own and x.dtype not in own:
                    raise InputError(
                        f"x has dtype {x.dtype} but the network holds {' and '.join(sorted(map(str, own)))}: pass "
                        "dtype=torch.float32 or dtype=torch.float64 to measure a copy in that precision."
                    ) from error
            except Exception:  # told below, as whoever measures without a probe is told it
                pass
            with in_plain_words(x):
                net(x)
        raise


def readings_of(measure: Any, given: Any) -> Iterator[Reading]:
    """What a measure gave as plain words and numbers; a sentence where it is not (key, value, error) each time.

    >>> list(readings_of(type("Mine", (), {"name": "mine"}), [("", 0.5)]))
    Traceback (most recent call last):
        ...
    undertow.core.errors.InputError: the measure mine gave ('', 0.5): a reading is (key, value, error), a word and two \
numbers, with None for an error that is not known.
    """
    if not hasattr(given, "__iter__"):
        raise _no_reading(measure, given)
    for reading in given:
        try:
            key, value, error = reading
            plain = float(value), None if error is None else float(error)
        except (TypeError, ValueError, RuntimeError):  # RuntimeError: a tensor of several numbers
            raise _no_reading(measure, reading) from None
        if not isinstance(key, str):
            raise _no_reading(measure, reading)
        yield key, *plain


def _no_reading(measure: Any, given: object) -> InputError:
    return InputError(
        f"the measure {measure.name} gave {repr(given)[:80]}: a reading is (key, value, error), a word and two "
        "numbers, with None for an error that is not known."
    )
