"""Which GPUs this process may use, and how a worker is kept to one of them.

CUDA numbers what ``CUDA_VISIBLE_DEVICES`` lists, when it is first used. A worker that finds one GPU there takes it as
its first, and cannot touch the others; so the variable is set before the worker's process begins.
"""

from __future__ import annotations

import os
import sys

import torch

from undertow.jacobian.memory import GPU_SHARE

__all__ = ["VISIBLE", "pinned_to", "visible_gpus"]

VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible_gpus() -> tuple[str, ...]:
    """The GPUs of this process, by the names that the variable takes: numbers, or UUIDs where it lists those.

    Nothing is begun on them: a process that only hands out work leaves all their memory to its workers.
    """
    if sys.platform == "linux" and not os.path.exists("/dev/nvidiactl"):
        return ()
    count = torch.cuda.device_count()
    return _listed(os.environ.get(VISIBLE), count)


def _listed(variable: str | None, count: int) -> tuple[str, ...]:
    """The names of ``count`` GPUs.

    >>> _listed(None, 2), _listed("3, 1", 2), _listed("0,-1,1", 1), _listed("", 0)
    (('0', '1'), ('3', '1'), ('0',), ())
    """
    if variable is None:
        return tuple(map(str, range(count)))
    return tuple(name.strip() for name in variable.split(","))[:count]


def pinned_to(gpus: tuple[str, ...], place: int, *, workers: int) -> dict[str, str]:
    """What the environment of the worker at that place of ``workers`` has to say: its one GPU, where GPUs are named,
    and its share of the GPU's memory where it is not the only one there; of a share, where this process has but one.

    >>> pinned_to(("0", "1"), 3, workers=4)
    {'CUDA_VISIBLE_DEVICES': '1', 'UNDERTOW_GPU_SHARE': '0.5'}
    >>> pinned_to(("0", "1"), 1, workers=2), pinned_to((), 0, workers=4)
    ({'CUDA_VISIBLE_DEVICES': '1'}, {'UNDERTOW_GPU_SHARE': '0.25'})
    """
    beside = -(-workers // max(len(gpus), 1))
    share = {GPU_SHARE: str(float(os.environ.get(GPU_SHARE, 1)) / beside)} if beside > 1 else {}
    return {VISIBLE: gpus[place % len(gpus)], **share} if gpus else share
