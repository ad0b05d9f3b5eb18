"""Fourteen two-layer networks: trained as one batch, and one after the other with a DataLoader loop.

    python benchmarks/ensemble.py                                      # two CPU cores, 6000 points
    python benchmarks/ensemble.py --device cuda --points 60000 --width 8192 --matmul-precision tf32

Both train the hidden layer of the same networks on the same random data of MNIST's size (the head is fixed,
as in the co-correlation study), by SGD with cross-entropy. ``--loader tensors`` gives the loop ready tensors;
``--loader images`` gives it bytes, which each item scales and normalises, as image data sets usually do.

Prints seconds per network and epoch, the ratio, and how far the two sets of weights are apart. Warm-up epochs
are not counted; of the others the best counts, for both.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from undertow.models import Scaled, two_layer
from undertow.training import Recipe, Trainer


def main() -> None:
    args = _arguments()
    device = torch.device(args.device)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(args.points, 784, generator=generator) / 28  # norms near 1, as the paper's inputs
    y = torch.randint(0, 10, (args.points,), generator=generator)
    networks = [
        two_layer(
            inputs=784, width=args.width, outputs=10, init=Scaled(q=q), head="gaussian", generator=generator
        )
        for q in torch.linspace(-0.15, 0.25, args.networks).tolist()
    ]

    trainer = Trainer(networks, x, y, [_recipe(args)] * args.networks, device=device)
    data = TensorDataset(x, y) if args.loader == "tensors" else _Images(x, y)
    loops = [_Loop(network.to(device), data, args) for network in networks[: args.loops]]  # all are alike
    times = _best_seconds([trainer.run_epoch, *(loop.run_epoch for loop in loops)], device, args)
    together, apart = times[0] / args.networks, sum(times[1:]) / len(loops)

    print(f"{args.networks} networks, width {args.width}, {args.points} points, batch {args.batch}")
    print(f"{_machine(device)}, torch {torch.__version__}, matrix products in {args.matmul_precision}")
    print(f"  one batch            {together:.2e} s per network-epoch")
    print(f"  one after the other  {apart:.2e} s per network-epoch (DataLoader over {args.loader})")
    print(f"  ratio                {apart / together:.1f}")
    if args.loader == "tensors" and not args.shuffle:  # otherwise they have not seen the same batches
        print(f"  weights differ by    {_difference(trainer, loops):.1e} of their change in training")


def _recipe(args: argparse.Namespace) -> Recipe:
    return Recipe(
        optimizer="sgd",
        learning_rate=args.learning_rate,
        epochs=args.warm_up + args.repeats + 1,  # the end, with its last look at the loss, is not timed
        batch_size=args.batch,
        shuffle=args.shuffle,
        loss="cross-entropy",
        frozen=("output.weight",),
        matmul_precision=args.matmul_precision,
    )


class _Images(Dataset[tuple[Tensor, ...]]):
    """Bytes, scaled to [0, 1] and normalised item by item."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self._pixels = (x * 255).clamp(0, 255).to(torch.uint8).view(-1, 1, 28, 28)
        self._labels = y

    def __len__(self) -> int:
        return len(self._pixels)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return (self._pixels[index].float() / 255 - 0.5) / 0.5, self._labels[index]


class _Loop:
    """The loop that one writes first."""

    def __init__(
        self, network: nn.Sequential, data: Dataset[tuple[Tensor, ...]], args: argparse.Namespace
    ) -> None:
        network.get_submodule("output").requires_grad_(False)
        self.start = network.get_parameter("hidden.weight").detach().clone()
        self.network = network
        self._device = next(network.parameters()).device
        self._loader = DataLoader(data, batch_size=args.batch, shuffle=args.shuffle)
        trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
        self._optimizer = torch.optim.SGD(trained, lr=args.learning_rate)

    def run_epoch(self) -> None:
        for x, y in self._loader:
            self._optimizer.zero_grad()
            logits = self.network(x.to(self._device))
            loss = nn.functional.cross_entropy(logits, y.to(self._device))
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()


def _best_seconds(
    epochs: Sequence[Callable[[], None]], device: torch.device, args: argparse.Namespace
) -> list[float]:
    """Best time of each; they take turns, so that all meet the machine in the same condition."""
    times: list[list[float]] = [[] for _ in epochs]
    for _ in range(args.warm_up + args.repeats):
        for epoch, seconds in zip(epochs, times, strict=True):
            begin = time.perf_counter()
            epoch()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            seconds.append(time.perf_counter() - begin)
    return [min(seconds[args.warm_up :]) for seconds in times]


def _difference(trainer: Trainer, loops: Sequence[_Loop]) -> float:
    """Largest ‖W_together - W_apart‖ / ‖W_apart - W_start‖ over the networks that both have trained."""
    worst = 0.0
    for index, loop in enumerate(loops):
        apart = loop.network.get_parameter("hidden.weight").detach()
        together = trainer.network(index).get_parameter("hidden.weight").detach()
        worst = max(worst, float((together - apart).norm() / (apart - loop.start).norm()))
    return worst


def _machine(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} CPU threads"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--networks", type=int, default=14)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--points", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--learning-rate", type=float, default=0.003)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--matmul-precision", choices=["float32", "tf32"], default="float32")
    parser.add_argument("--loader", choices=["tensors", "images"], default="tensors")
    parser.add_argument("--shuffle", action="store_true", help="a new order in every epoch")
    parser.add_argument("--loops", type=int, default=3, help="how many to train one after the other")
    parser.add_argument("--warm-up", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
