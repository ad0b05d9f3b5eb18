"""What a network consists of: the one reader that norms, certificates, attacks, stacked training and theory ask.

Layers are read only where they are all there is to a network. A hook, a ``forward`` put on a module or a subclass can
change what a network computes without changing its layers: such a network is no chain, and has to be called.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from undertow.core.layers import ActivationLayer, DropoutLayer, FlattenLayer, Layer, LinearLayer, layer_of

__all__ = ["DenseChain", "LayerChain", "NotAChain", "is_unmodified", "read_dense", "read_layers"]


@dataclass(frozen=True)
class NotAChain:
    """Why a network cannot be read as a chain of the kind that was asked for."""

    reason: str


@dataclass(frozen=True, eq=False)
class LayerChain:
    """The layers of a network in the order they run, each on what the one before it gives."""

    layers: tuple[Layer, ...]

    @property
    def at_work(self) -> tuple[Layer, ...]:
        """The layers that do something in eval mode: neither dropout nor the identity."""
        return tuple(
            layer
            for layer in self.layers
            if not (
                isinstance(layer, DropoutLayer) or (isinstance(layer, ActivationLayer) and layer.is_identity)
            )
        )

    @property
    def at_work_on_vectors(self) -> tuple[Layer, ...]:
        """The same without a first layer that makes vectors (N, d) of samples (N, …)."""
        layers = self.at_work
        return (
            layers[1:]
            if layers and isinstance(layers[0], FlattenLayer) and layers[0].whole_samples
            else layers
        )


@dataclass(frozen=True, eq=False)
class DenseChain:
    """σ_L(W_L ⋯ σ_1(W_1 x + b_1) ⋯ + b_L): linear layers and their names, each with an activation behind it or None.

    ``flattens`` says whether the network makes vectors (N, d) of its inputs (N, …) first.
    """

    flattens: bool
    names: tuple[str, ...]
    linears: tuple[nn.Linear, ...]
    activations: tuple[ActivationLayer | None, ...]

    @property
    def activation_names(self) -> tuple[str | None, ...]:
        """Of every activation, as configuration files write it; of one that is not in the table, its class."""
        return tuple(None if layer is None else layer.activation_name for layer in self.activations)

    @property
    def biases(self) -> tuple[Tensor | None, ...]:
        """The b of every linear layer that has one."""
        return tuple(linear.bias for linear in self.linears)


def is_unmodified(module: nn.Module) -> bool:
    """Whether a module computes what its class does: no hook and no ``forward`` of its own changes that."""
    return not (module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))


def read_layers(net: object) -> LayerChain | NotAChain:
    """The layers of a network, nested ``nn.Sequential`` opened; ``NotAChain`` where more happens than they show.

    Only exact types are recognised. A subclass, of ``nn.Sequential`` too, may do anything: it is one layer of no known
    kind.

    >>> net = nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(2, 3), nn.LeakyReLU(0.1)))
    >>> [str(layer) for layer in read_layers(net).layers]
    ["'0' (Flatten)", "'1.0' (Linear)", "'1.1' (LeakyReLU)"]
    >>> read_layers(net).layers[2].activation.slope_range
    (0.1, 1.0)
    >>> _ = net[1][0].register_forward_hook(print)
    >>> read_layers(net).reason
    "'1.0' (Linear) has a hook or a forward of its own"
    """
    if not isinstance(net, nn.Module):
        return NotAChain("a function has no layers to read")
    layers = _opened(net, "")
    modified = next((layer for layer in layers if not is_unmodified(layer.module)), None)
    if modified is not None:
        return NotAChain(f"{modified} has a hook or a forward of its own")
    return LayerChain(tuple(layers))


def read_dense(
    net: object, *, inputs: Tensor | None = None, training: bool = False
) -> DenseChain | NotAChain:
    """The linear layers and activations of a network that has nothing else; dropout only unless it is ``training``.

    With ``inputs`` (N, …) it has to see them as vectors: by flattening them, if they are none.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Tanh(), nn.Dropout(), nn.Linear(3, 1))
    >>> chain = read_dense(net)
    >>> chain.flattens, chain.names, [str(layer) for layer in chain.activations]
    (True, ('1', '4'), ["'2' (Tanh)", 'None'])
    >>> read_dense(net, training=True).reason
    "'3' (Dropout) is neither a linear layer nor an activation behind one"
    """
    chain = read_layers(net)
    if isinstance(chain, NotAChain):
        return chain
    flattens = False
    linears: list[LinearLayer] = []
    activations: list[ActivationLayer | None] = []
    for layer in chain.layers if training else chain.at_work:
        if isinstance(layer, LinearLayer):
            linears.append(layer)
            activations.append(None)
        elif isinstance(layer, FlattenLayer) and layer.whole_samples and not linears:
            flattens = True
        elif isinstance(layer, ActivationLayer) and layer.is_identity:
            continue
        elif isinstance(layer, ActivationLayer) and linears and activations[-1] is None:
            activations[-1] = layer
        else:
            return NotAChain(f"{layer} is neither a linear layer nor an activation behind one")
    if not linears:
        return NotAChain("there is no linear layer")
    if inputs is not None and inputs.dim() != 2 and not flattens:
        return NotAChain(f"inputs of shape {tuple(inputs.shape)} reach the first linear layer as they are")
    return DenseChain(
        flattens,
        tuple(layer.name for layer in linears),
        tuple(layer.module for layer in linears),
        tuple(activations),
    )


def _opened(module: nn.Module, name: str) -> list[Layer]:
    """The layers below a module, itself where it is no plain sequence."""
    if type(module) is not nn.Sequential or not is_unmodified(module):
        return [layer_of(name, module)]
    inner = module._modules.items()  # a module that runs twice is there twice
    return [
        layer
        for child, below in inner
        if below is not None
        for layer in _opened(below, f"{name}.{child}" if name else child)
    ]
