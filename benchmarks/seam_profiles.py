"""What a profile of all seams costs for small networks of ``transformers``, random weights, statistics of some batches.

Seconds of processor and by the clock, of listing seams and of the profile, and how many products it took.

    python benchmarks/seam_profiles.py --threads 1
    python benchmarks/seam_profiles.py --threads 1 --points 64 --only vit swin
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import time
import warnings
from typing import Any

import torch
from deep_norms import counting
from torch import Tensor, nn

import undertow as ut

_NECKS = [8, 8, 16, 16, 24, 24, 64]
_NETWORKS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "efficientnet": (
        "EfficientNet",
        32,
        {"width_coefficient": 0.25, "depth_coefficient": 0.5, "hidden_dim": 320},
    ),
    "mobilevit": ("MobileViT", 64, {"hidden_sizes": [16, 24, 32], "neck_hidden_sizes": _NECKS}),
    "convnext": (
        "ConvNext",
        32,
        {"num_stages": 4, "hidden_sizes": [8, 12, 16, 24], "depths": [2, 2, 4, 2], "patch_size": 2},
    ),
    "swin": (
        "Swin",
        32,
        {"patch_size": 2, "embed_dim": 12, "depths": [2, 2, 4], "num_heads": [2, 2, 2], "window_size": 4},
    ),
    "vit": (
        "ViT",
        32,
        {
            "patch_size": 4,
            "hidden_size": 48,
            "num_hidden_layers": 6,
            "num_attention_heads": 3,
            "intermediate_size": 96,
        },
    ),
}


def made(name: str, points: int) -> tuple[nn.Module, Tensor]:
    """A network of ten classes, and noise as its pictures."""
    transformers: Any = importlib.import_module("transformers")
    kind, side, settings = _NETWORKS[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(image_size=side, num_labels=10, **settings)
    net: nn.Module = getattr(transformers, f"{kind}ForImageClassification")(config)
    if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in net.modules()):
        with torch.no_grad():
            for _ in range(40):
                net(torch.randn(16, 3, side, side))  # statistics that are not the initial ones
    return net.eval(), torch.randn(points, 3, side, side)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--points", type=int, default=8)
    parser.add_argument("--only", nargs="+", choices=_NETWORKS, default=list(_NETWORKS))
    arguments = parser.parse_args()
    if importlib.util.find_spec("transformers") is None:
        print("transformers is not installed: requirements-adapters.lock has it")
        return
    torch.set_num_threads(arguments.threads)
    warnings.simplefilter("ignore")
    for name in arguments.only:
        net, x = made(name, arguments.points)
        begun = time.process_time()
        places = ut.seams(net, x)
        listed, clock, processor = time.process_time() - begun, time.perf_counter(), time.process_time()
        with counting() as counts:
            found = ut.seam_profile(net, x)
        clock, processor = time.perf_counter() - clock, time.process_time() - processor
        print(
            f"{name}, {len(places)} seams, {len(x)} points: {processor:.1f} s of processor, {clock:.1f} s by the "
            f"clock (listing {listed:.1f} s); {sum(counts.values())} products, {found.status.value}, error of ϱ at "
            f"most {max(found.error):.0e}; ϱ of the first seam {found.co_correlation[0]:.6f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
