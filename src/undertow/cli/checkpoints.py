"""A network and samples as the command line names them: a checkpoint, a function that builds the model, data."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from undertow.core.errors import ConfigError, UndertowError, nearest
from undertow.core.files import read_regular
from undertow.core.tensor_files import unpack
from undertow.data import load

__all__ = ["network_from", "samples_from"]


def network_from(checkpoint: Path, model: str | None) -> nn.Module:
    """The network of a safetensors file, built by ``model``, or of a folder as transformers writes it; in eval mode."""
    if checkpoint.is_dir():
        return _from_folder(checkpoint, model)
    if model is None:
        raise ConfigError(
            "a file of weights does not say what network they are of: give --model package.module:function, a function "
            "without arguments that returns it."
        )
    net = _built(model)
    try:
        net.load_state_dict(unpack(read_regular(checkpoint), checkpoint))
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ConfigError(f"{checkpoint} does not fit what {model} builds: {' '.join(lines[1:3])}") from None
    return net.eval()


def _built(model: str) -> nn.Module:
    """What the function named ``package.module:function`` returns."""
    place, colon, name = model.partition(":")
    if not (place and colon and name):
        raise ConfigError(f"--model {model!r}: write package.module:function.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as python itself would look
    try:
        module = importlib.import_module(place)
    except ImportError as error:
        raise ConfigError(f"--model: {place!r} cannot be imported from here ({error}).") from None
    made: Any = getattr(module, name, None)
    if made is None:
        names = [each for each in vars(module) if not each.startswith("_")]
        raise ConfigError(f"--model: {place} has no {name!r}: {nearest(name, names)}")
    try:
        net = made if isinstance(made, nn.Module) else made()
    except TypeError as error:
        raise ConfigError(f"--model: {model} must take no arguments ({error}).") from None
    if not isinstance(net, nn.Module):
        raise ConfigError(f"--model: {model} gives {type(net).__name__}, not a torch.nn.Module.")
    return net


def _from_folder(folder: Path, model: str | None) -> nn.Module:
    """The model of a folder with ``config.json`` and safetensors."""
    if model is not None:
        raise ConfigError("a folder of transformers says itself what model it holds: leave --model out.")
    try:
        config = json.loads(read_regular(folder / "config.json"))
        (architecture, *_) = config["architectures"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{folder} has no config.json that names an architecture: give a file.") from None
    try:
        transformers = importlib.import_module("transformers")
    except ImportError:
        raise ConfigError(f"{folder} needs transformers: pip install 'undertow[transformers]'.") from None
    kind = getattr(transformers, str(architecture), None)
    if kind is None:
        raise ConfigError(f"this version of transformers has no {architecture!r}: install one that does.")
    try:  # nothing is downloaded, no pickle read and no code of the folder's run
        net: nn.Module = kind.from_pretrained(
            str(folder), local_files_only=True, use_safetensors=True, trust_remote_code=False
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(f"{folder} cannot be read: {str(error).splitlines()[0]}") from None
    return net.eval()


def samples_from(data: str, net: nn.Module, *, points: int) -> tuple[Tensor, Tensor | None]:
    """At most so many samples of the right dtype, and their labels where there are any.

    ``data`` is the name of a data set, whose test split is taken; a file: safetensors with ``x`` and maybe ``y``, or a
    table; ``random:3x32x32`` for standard normal inputs of a shape; ``tokens:16`` for random token ids.
    """
    parameter = next(net.parameters(), torch.zeros(()))
    kind, colon, shape = data.partition(":")
    generator = torch.Generator().manual_seed(0)
    if colon and kind == "random":
        return torch.randn(points, *_sizes(data, shape), generator=generator).to(parameter), None
    if colon and kind == "tokens":
        (length, *rest) = _sizes(data, shape)
        table = next((module for module in net.modules() if isinstance(module, nn.Embedding)), None)
        if table is None or rest:
            raise ConfigError(f"--data {data!r}: write tokens:LENGTH, for a network with an embedding.")
        return torch.randint(0, table.num_embeddings, (points, length), generator=generator), None
    if data.endswith(".safetensors"):
        found = unpack(read_regular(data), Path(data))
        if "x" not in found:
            raise ConfigError(
                f"{data} has {', '.join(found) or 'nothing'}: call the samples x, and labels y."
            )
        x, y = found["x"][:points], found.get("y")
        y = None if y is None else y[:points]
    else:
        try:
            held = load(data, split="test", limit=points)
        except UndertowError as error:
            raise ConfigError(
                f"--data {data!r}: {error} (Or give a .safetensors file with x, random:3x32x32 or tokens:16.)"
            ) from None
        x, y = held.x, held.y
    return (x.to(parameter.dtype) if x.is_floating_point() else x).to(parameter.device), y


def _sizes(data: str, text: str) -> list[int]:
    try:
        sizes = [int(size) for size in text.split("x")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise ConfigError(f"--data {data!r}: write a shape as random:3x32x32, without the number of samples.")
    return sizes
