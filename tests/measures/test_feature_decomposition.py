"""Cosines and coefficients of features: against dense least squares, against the steps that made them, by hand."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from undertow.core.errors import InputError, ModelError
from undertow.data import by_cluster, d_binary
from undertow.data.dataset import Dataset
from undertow.measures.averaged_direction import averaged_radii
from undertow.measures.bias_search import best_biases
from undertow.measures.feature_cosines import feature_cosines, own_features
from undertow.measures.feature_decomposition import decompose, summarise
from undertow.measures.feature_steps import FeatureSteps, two_layer_parts
from undertow.models import Gaussian, two_layer
from undertow.theory.feature_averaging import averaged_direction, grouped_network
from undertow.training import Recipe, Trainer


def start(data: Dataset, *, clusters: bool = False, seed: int = 0, std: float = 1e-3) -> nn.Sequential:
    return two_layer(
        inputs=data.x.shape[1],
        width=data.classes if clusters else 6,
        outputs=data.classes if clusters else 1,
        init=Gaussian(std, bias=std),
        bias="none" if clusters else "hidden",
        head="class-means" if clusters else "balanced-signs",
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(seed),
    )


def trained(data: Dataset, net: nn.Module, *, steps: int, clusters: bool = False) -> nn.Module:
    recipe = Recipe(
        optimizer="gd",
        learning_rate=0.05,
        epochs=steps,
        loss="cross-entropy" if clusters else "logistic",
        dtype="float64",
        frozen=("output.weight",),
    )
    trainer = Trainer([net], data.x, data.y if clusters else 2 * data.y - 1, [recipe])
    trainer.advance(steps)
    return trainer.network(0)


class TestDecomposition:
    @pytest.mark.parametrize("cosine", [0.0, 0.2])
    def test_least_squares_against_a_dense_oracle(self, cosine: float) -> None:
        data = d_binary(n=12, d=40, k=4, cosine=cosine, seed=3)
        mu, cluster = data.details["centres"].double(), data.details["cluster"]
        change = torch.randn(5, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        found = decompose(change, mu, data.x, cluster)
        xi = data.x.double() - mu[cluster]
        atoms = torch.cat([mu / mu.square().sum(1, keepdim=True), xi / xi.square().sum(1, keepdim=True)])
        oracle = torch.linalg.lstsq(atoms.T, change.T).solution.T
        torch.testing.assert_close(found.features, oracle[:, :4], rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(found.noise, oracle[:, 4:], rtol=1e-8, atol=1e-10)
        left = (change - oracle @ atoms).norm() / change.norm()
        assert found.residual == pytest.approx(float(left), rel=1e-9)
        assert found.unique

    def test_too_many_points_have_no_unique_answer_but_an_exact_one(self) -> None:
        data = d_binary(n=30, d=20, k=4, seed=3)
        change = torch.randn(2, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        found = decompose(change, data.details["centres"], data.x, data.details["cluster"])
        assert not found.unique
        assert found.residual < 1e-9

    def test_a_point_without_noise_has_no_coefficient_of_its_own(self) -> None:
        mu = torch.eye(6, dtype=torch.float64)[:2]
        points = torch.stack([mu[0], mu[1] + 0.5 * torch.eye(6)[4]])
        found = decompose(mu[:1] * 3, mu, points, torch.tensor([0, 1]))
        assert not found.unique
        assert found.features.tolist() == [pytest.approx([3.0, 0.0])]
        assert found.residual < 1e-9

    @pytest.mark.parametrize("clusters", [False, True])
    def test_the_steps_add_up_to_the_least_squares_solution(self, clusters: bool) -> None:
        data = d_binary(n=20, d=60, k=4, seed=1)
        data = by_cluster(data) if clusters else data
        mu, cluster = data.details["centres"], data.details["cluster"]
        net = start(data, clusters=clusters)
        labels = data.y if clusters else (2 * data.y - 1).double()
        follow = FeatureSteps(data.x, labels, mu, cluster, loss="cross-entropy" if clusters else "logistic")
        before: nn.Module = copy.deepcopy(net)
        for _ in range(15):
            follow.add(before, learning_rate=0.05)
            before = trained(data, before, steps=1, clusters=clusters)
        change = two_layer_parts(before).weight - two_layer_parts(net).weight
        found = decompose(change, mu, data.x, cluster)
        assert found.residual < 1e-12
        torch.testing.assert_close(follow.features, found.features, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(follow.noise, found.noise, rtol=1e-9, atol=1e-12)

    def test_shapes_must_fit(self) -> None:
        with pytest.raises(InputError, match="rows of the same"):
            decompose(torch.ones(2, 3), torch.ones(2, 4), torch.ones(1, 4), torch.tensor([0]))
        with pytest.raises(ModelError, match="two-layer ReLU"):
            two_layer_parts(nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)))


class TestSummaries:
    def test_by_hand(self) -> None:
        own = own_features(torch.tensor([[0.5, -0.5]]), torch.tensor([1, 1, -1]))
        found = summarise(torch.tensor([[1.0, 3.0, -0.5], [0.2, -0.4, 4.0]]), own)
        assert (found.own_least, found.own_ratio, found.cross_largest) == (1.0, 3.0, 0.5)
        assert found.own_mean == pytest.approx(8 / 3)
        assert found.own_spread == pytest.approx(0.5)
        assert found.cross_share == pytest.approx(0.5 / (8 / 3))

    def test_a_coefficient_that_is_not_positive_makes_the_ratio_infinite(self) -> None:
        own = torch.tensor([[True, True]])
        assert math.isinf(summarise(torch.tensor([[1.0, -0.1]]), own).own_ratio)

    def test_one_output_for_each_cluster(self) -> None:
        assert own_features(torch.eye(3), torch.tensor([1, -1, -1])).equal(torch.eye(3).bool())
        with pytest.raises(InputError, match="one for each cluster"):
            own_features(torch.ones(2, 3), torch.tensor([1, -1, -1]))

    def test_cosines_of_a_dead_neuron_are_zero(self) -> None:
        found = feature_cosines(torch.zeros(1, 5), torch.eye(5)[:2])
        assert found.equal(torch.zeros(1, 2).double())


class TestAveragedDirection:
    def test_radii_against_a_dense_line(self) -> None:
        data = d_binary(n=12, d=30, k=4, seed=2)
        net = trained(data, start(data), steps=20)
        mu, signs = data.details["centres"].double(), data.details["cluster_sign"]
        found = averaged_radii(net, data.x, data.y, mu, signs)
        direction = averaged_direction(mu, signs)
        for x, y, radius in zip(data.x.double(), data.y, found, strict=True):
            sign = 1.0 if y else -1.0
            lengths = torch.linspace(0, 1.5 * float(radius), 30_001, dtype=torch.float64)
            values = sign * net(x - sign * lengths[:, None] * direction).flatten()
            first = lengths[int((values <= 0).to(torch.int64).argmax())]
            assert float(first) == pytest.approx(float(radius), rel=1e-3)

    def test_one_output_for_each_cluster_is_read_out_by_class(self) -> None:
        mu, signs = 2 * torch.eye(4, dtype=torch.float64), torch.tensor([1, 1, -1, -1])
        net = nn.Sequential(nn.Linear(4, 4, bias=False), nn.ReLU(), nn.Linear(4, 4, bias=False)).double()
        with torch.no_grad():
            for weight in net.parameters():
                weight.copy_(torch.eye(4))
        # At μ_1 moved by t(−1, −1, 1, 1)/2 the read-out is 2 − t/2 − 2 · t/2.
        found = averaged_radii(net, mu, torch.tensor([1, 1, 0, 0]), mu, signs)
        assert found.tolist() == pytest.approx([4 / 3] * 4)


class TestBiases:
    def line(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The averaged network at the centres: one class at (λ, 0), the other at (0, λ)."""
        mu, signs = 6 * torch.eye(6, dtype=torch.float64), torch.tensor([1, 1, 1, -1, -1, -1])
        net = grouped_network(mu, signs, group=3, threshold=0.0, dtype=torch.float64)
        parts = two_layer_parts(net)
        direction = averaged_direction(mu, signs)
        slopes = -signs[:, None].double() * (parts.weight @ direction)
        return mu @ parts.weight.T, slopes, parts.head[0], signs.double()

    def test_no_biases_beat_twice_the_averaged_radius(self) -> None:
        hidden, slopes, head, sign = self.line()
        unit = math.sqrt(6 * 6 / 6)  # √(‖μ‖²/k)
        draw = torch.Generator().manual_seed(0)
        near = best_biases(hidden, slopes, head, sign, radius=0.5 * unit, generator=draw)
        assert near.robust == 1.0
        assert near.radius == pytest.approx(unit, rel=1e-6)  # the radii of both classes sum to 2√(d/k)
        far = best_biases(hidden, slopes, head, sign, radius=2.01 * unit, generator=draw)
        assert far.robust == 0.0
        assert far.robust_any == 0.5  # a constant is never wrong about one class

    def test_where_no_biases_are_accurate_there_is_nothing_to_tell(self) -> None:
        # Two points of different classes that the neurons cannot tell apart: half right at best.
        hidden, head, y = torch.ones(2, 2), torch.tensor([1.0, -1.0]), torch.tensor([1.0, -1.0])
        slopes = torch.tensor([[-1.0, 1.0], [1.0, -1.0]])
        draw = torch.Generator().manual_seed(0)
        found = best_biases(hidden, slopes, head, y, radius=0.5, rounds=5, generator=draw)
        assert (found.radius, found.robust, found.robust_any) == (None, None, 0.5)

    def test_more_search_finds_no_less(self) -> None:
        hidden, slopes, head, sign = self.line()
        noisy = hidden + 0.05 * torch.randn(hidden.shape, generator=torch.Generator().manual_seed(1)).double()
        few, many = (
            best_biases(
                noisy, slopes, head, sign, radius=1.0, rounds=n, generator=torch.Generator().manual_seed(2)
            )
            for n in (1, 200)
        )
        assert many.radius is not None
        assert few.radius is not None
        assert many.radius >= few.radius
        assert many.tried > few.tried
