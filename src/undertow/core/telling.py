"""Warnings at the line of whoever called undertow, however many calls of ours lie between."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings

import torch

__all__ = ["tell"]

_OURS = (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    os.path.dirname(str(torch.optim.__file__)) + os.sep,  # an optimiser that is followed calls us
    str(contextlib.__file__),
)


def tell(sentence: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called undertow, once for each such line.

    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     tell("the batch is small")
    >>> print(said[0].message)
    the batch is small
    """
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, category, stacklevel=level)
