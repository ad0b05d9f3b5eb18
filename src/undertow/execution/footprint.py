"""What a group needs at the very least, told before it is asked for.

A number too many in a setting can ask for more than any machine has. The system does not always refuse: it may promise
the memory, and end the process when it is used. So the inputs and the weights are counted first.
"""

from __future__ import annotations

import math
import resource
from collections.abc import Sequence
from pathlib import Path

from undertow.config.trial import TrialConfig
from undertow.core.errors import ConfigError
from undertow.execution.build import seed_of_data

__all__ = ["MEMORY_USED_UP", "check_memory", "free_memory", "is_out_of_memory", "least_bytes"]

MEMORY_USED_UP = (
    "the memory was used up: choose less data, narrower networks, fewer workers, or a larger machine."
)
_FLOAT = 4
_SAID_OF_MEMORY = (
    "can't allocate memory",
    "out of memory",
    "not enough memory",
    "Storage size calculation overflowed",
    "_STATUS_ALLOC_FAILED",  # of cuBLAS and cuDNN, which ask for memory of their own
)


def check_memory(trials: Sequence[TrialConfig]) -> None:
    """A ``ConfigError`` when the group's data or weights alone are more than the memory that is free."""
    free = free_memory()
    data, weights = least_bytes(trials)
    if free is not None and data + weights > free:
        what, names = ("data", "n or d") if data > weights else ("weights", "width, or group_size")
        raise ConfigError(
            f"the {what} of this group take {_gigabytes(max(data, weights))} at least, and {_gigabytes(free)} of "
            f"memory are free: choose a smaller {names}, or a machine with more."
        )


def least_bytes(trials: Sequence[TrialConfig]) -> tuple[int, int]:
    """Bytes of the sampled inputs, and of the weights of all members: a part of what training takes.

    Data from files are not counted: their loaders know their sizes.
    """
    rows, columns = trials[0].data.least_shape()
    rows *= len({seed_of_data(trial) for trial in trials})
    weights = sum(trial.model.least_weights(columns) for trial in trials)
    return rows * columns * _FLOAT, weights * _FLOAT


def free_memory() -> int | None:
    """Bytes that this process can still have: what the machine has free, within the process's own limits."""
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    known = [limit for limit in limits if limit != resource.RLIM_INFINITY]
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        known += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")]
    except (OSError, ValueError, IndexError):
        pass  # not Linux
    return min(known, default=None)


def is_out_of_memory(error: Exception) -> bool:
    """Whether that is what the error says, in the words of Python, numpy or torch.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"))
    (True, True)
    """
    said = str(error)
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in said for words in _SAID_OF_MEMORY)
    )


def _gigabytes(count: float) -> str:
    """Bytes for people.

    >>> _gigabytes(4e9), _gigabytes(3e18)
    ('4.0 GB', '3,000,000,000.0 GB')
    """
    return f"{math.ceil(count / 1e8) / 10:,.1f} GB"
