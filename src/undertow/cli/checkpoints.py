"""A network as the command line names it: a checkpoint, and a function that builds the model."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Container
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from undertow.core.errors import ConfigError, nearest
from undertow.core.files import read_regular
from undertow.core.tensor_files import unpack
from undertow.core.unwrapping import unwrapped

__all__ = ["network_from"]


def network_from(checkpoint: Path, model: str | None) -> nn.Module:
    """The network of a safetensors file, built by ``model``, or of a folder as transformers writes it; in eval mode."""
    if checkpoint.is_dir():
        return _from_folder(checkpoint, model)
    if model is None:
        raise ConfigError(
            "a file of weights does not say what network they are of: give --model package.module:function, a function "
            "without arguments that returns it."
        )
    net = unwrapped(_built(model))
    weights = _by_its_names(net, unpack(read_regular(checkpoint), checkpoint))
    try:
        missing, unexpected = net.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ConfigError(f"{checkpoint} does not fit what {model} builds: {' '.join(lines[1:3])}") from None
    missing = [name for name in missing if name not in _shared_with(net, weights)]
    wrong = [
        f"{what} {', '.join(names[:5])}{', …' if len(names) > 5 else ''}."
        for what, names in (("The file lacks", missing), ("The network has no", sorted(unexpected)))
        if names
    ]
    if wrong:
        raise ConfigError(f"{checkpoint} does not fit what {model} builds: {' '.join(wrong)}")
    return net.eval()


def _by_its_names(net: nn.Module, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights without the names of what was around the network, or a part of it, when they were saved."""
    wanted = net.state_dict().keys()
    if weights.keys() == wanted:
        return weights
    found = {name.replace("_orig_mod.", ""): weight for name, weight in weights.items()}
    while found and all(name.startswith("module.") for name in found) and not found.keys() & wanted:
        found = {name.removeprefix("module."): weight for name, weight in found.items()}
    return found


def _shared_with(net: nn.Module, names: Container[str]) -> set[str]:
    """Every name of the tensors that have one of these: tied weights are saved under one of their names."""
    tensors = net.state_dict(keep_vars=True)
    held = {id(tensor) for name, tensor in tensors.items() if name in names}
    return {name for name, tensor in tensors.items() if id(tensor) in held}


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
    except Exception as error:  # whatever the user's own code may raise
        raise ConfigError(f"--model: {place!r} fails when it is imported: {_told(error)}.") from error
    made: Any = getattr(module, name, None)
    if made is None:
        names = [each for each in vars(module) if not each.startswith("_")]
        raise ConfigError(f"--model: {place} has no {name!r}: {nearest(name, names)}")
    try:
        net = made if isinstance(made, nn.Module) else made()
    except TypeError as error:
        raise ConfigError(f"--model: {model} must take no arguments ({error}).") from None
    except Exception as error:
        raise ConfigError(f"--model: {model} fails when it is called: {_told(error)}.") from error
    if not isinstance(net, nn.Module):
        raise ConfigError(f"--model: {model} gives {type(net).__name__}, not a torch.nn.Module.")
    return net


def _told(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}".rstrip(".: ") if lines else type(error).__name__


def _from_folder(folder: Path, model: str | None) -> nn.Module:
    """The model of a folder with ``config.json`` and safetensors."""
    if model is not None:
        raise ConfigError("a folder of transformers says itself what model it holds: leave --model out.")
    if (folder / "adapter_config.json").exists():
        raise ConfigError(
            f"{folder} holds an adapter of peft, which is no network by itself: PeftModel.from_pretrained(base, "
            f"{str(folder)!r}).merge_and_unload().save_pretrained('merged'), and give that folder."
        )
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
