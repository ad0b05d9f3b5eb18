from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from undertow.core.errors import InputError
from undertow.data import Dataset, by_cluster, cluster_centres, d_binary, kou_mixture
from undertow.data.separable import SeparableData, separable
from undertow.data.separable_classes import SeparableClassesData, separable_classes
from undertow.data.sign_vectors import SignVectorsData, sign_vectors


class TestKouMixture:
    def test_it_is_what_the_definition_says(self) -> None:
        data = kou_mixture(n=4000, d=300, sigma_p=0.5, sigma_e=2.0, seed=3)
        signal, noise, sign = (data.details[key] for key in ("signal", "noise", "sign"))
        torch.testing.assert_close(data.x, sign[:, None] * signal + noise)
        assert data.y.equal((sign + 1) // 2)
        # five standard errors of each estimate
        assert abs(sign.double().mean()) < 5 / math.sqrt(4000)
        assert abs(signal.double().std() / 0.5 - 1) < 5 / math.sqrt(2 * 300)
        assert abs(noise.double().std() / 2.0 - 1) < 5 / math.sqrt(2 * 4000 * 300)
        assert abs(noise.double().mean()) < 5 * 2.0 / math.sqrt(4000 * 300)
        kurtosis = (noise.double() / 2.0).pow(4).mean()
        assert abs(kurtosis - 3) < 5 * math.sqrt(96 / (4000 * 300))

    def test_the_defaults_are_the_reports_and_nearly_orthogonal(self) -> None:
        data = kou_mixture()
        assert data.x.shape == (10, 784)
        gram = data.x.double() @ data.x.double().T
        assert (gram.diagonal() / 784 - 1).abs().max() < 0.25
        assert (gram - gram.diag().diag()).abs().max() < 5 * math.sqrt(784)

    def test_a_given_signal_gives_test_data_of_the_same_distribution(self) -> None:
        train = kou_mixture(n=5, d=7, sigma_p=3.0, seed=0)
        test = kou_mixture(n=50, d=7, seed=1, signal=train.details["signal"], sigma_e=0.0)
        torch.testing.assert_close(test.x, (2 * test.y[:, None] - 1) * train.details["signal"])

    def test_wrong_sizes_are_refused(self) -> None:
        with pytest.raises(InputError, match="n is 0"):
            kou_mixture(n=0)
        with pytest.raises(InputError, match=r"must be \(784,\)"):
            kou_mixture(signal=torch.zeros(3))
        with pytest.raises(InputError, match="negative"):
            kou_mixture(sigma_e=-1.0)


class TestDBinary:
    @settings(max_examples=40)
    @given(
        k=st.integers(2, 8),
        extra=st.integers(0, 40),
        n=st.integers(1, 30),
        seed=st.integers(0, 2**31),
        balance=st.floats(0.1, 10),
        noise=st.sampled_from(["gaussian", "rademacher", "uniform", "sparse"]),
    )
    def test_any_sizes(self, k: int, extra: int, n: int, seed: int, balance: float, noise: str) -> None:
        d = k + extra
        data = d_binary(n=n, d=d, k=k, seed=seed, balance=balance, noise=noise)  # type: ignore[arg-type]
        centres, cluster, sign = (data.details[key] for key in ("centres", "cluster", "cluster_sign"))
        torch.testing.assert_close(data.x, centres[cluster] + data.details["noise"])
        torch.testing.assert_close(
            centres.double() @ centres.double().T, d * torch.eye(k).double(), atol=1e-5 * d, rtol=0
        )
        assert data.y.equal((sign[cluster] > 0).long())
        positive = int((sign > 0).sum())
        assert 1 <= positive <= k - 1
        # no other split of k clusters comes closer to the asked share of positive ones
        share = balance / (1 + balance)
        assert abs(positive / k - share) <= min(abs(p / k - share) for p in range(1, k)) + 1e-12

    def test_clusters_are_uniform_and_noise_has_its_variance(self) -> None:
        for noise in ("gaussian", "rademacher", "uniform", "sparse"):
            data = d_binary(n=5000, d=64, k=10, sigma=1.5, noise=noise, seed=2)
            counts = data.details["cluster"].bincount(minlength=10).double()
            chi_squared = ((counts - 500) ** 2 / 500).sum()
            assert chi_squared < 27.9  # the 0.999 quantile at 9 degrees of freedom
            xi = data.details["noise"].double()
            assert abs(xi.var() / 1.5**2 - 1) < 0.02
            assert abs(xi.mean()) < 5 * 1.5 / math.sqrt(xi.numel())
            largest = {
                "gaussian": math.inf,
                "rademacher": 1.5,
                "uniform": 1.5 * math.sqrt(3),
                "sparse": 1.5 * math.sqrt(10),
            }[noise]
            assert xi.abs().max() <= largest * (1 + 1e-6)

    def test_the_sanity_marks_of_the_theory(self) -> None:
        data = d_binary(n=1, d=3072, k=10)
        centres = data.details["centres"].double()
        average = centres[:5].mean(0)
        cosines = torch.nn.functional.cosine_similarity(centres[:5], average[None])
        torch.testing.assert_close(cosines, torch.full((5,), 1 / math.sqrt(5)).double(), atol=1e-5, rtol=0)
        assert (centres[0] - centres[1]).norm() / 2 == pytest.approx(39.2, abs=0.05)

    def test_six_of_ten(self) -> None:
        assert (d_binary(n=1, d=20, k=10, balance=1.5).details["cluster_sign"] > 0).sum() == 6

    @given(k=st.integers(2, 6), share=st.floats(0.01, 0.98), seed=st.integers(0, 1000))
    def test_centres_have_the_cosine_asked_for(self, k: int, share: float, seed: int) -> None:
        lowest = -1 / (k - 1)
        cosine = lowest + share * (1 - lowest)
        mu = cluster_centres(k=k, d=30, cosine=cosine, norm=2.0, seed=seed)
        expected = 4 * ((1 - cosine) * torch.eye(k).double() + cosine)
        torch.testing.assert_close(mu @ mu.T, expected, atol=1e-9, rtol=0)

    def test_centres_on_the_sphere_are_nearly_orthogonal(self) -> None:
        mu = cluster_centres(k=40, d=10_000, cosine=None)
        gram = mu @ mu.T / 10_000
        torch.testing.assert_close(gram.diagonal(), torch.ones(40).double())
        off = (gram - torch.eye(40)).abs().max()
        assert 0 < off < 5 / math.sqrt(10_000)

    def test_given_centres_are_used(self) -> None:
        train = d_binary(n=3, d=12, k=4, seed=5)
        test = d_binary(n=9, d=12, k=4, seed=6, centres=train.details["centres"])
        assert test.details["centres"].equal(train.details["centres"])

    def test_sparse_noise_touches_a_tenth(self) -> None:
        xi = d_binary(n=400, d=100, k=2, noise="sparse", seed=1).details["noise"]
        assert abs((xi != 0).double().mean() - 0.1) < 5 * math.sqrt(0.09 / xi.numel())

    def test_labels_by_cluster_keep_the_two_classes(self) -> None:
        data = d_binary(n=20, d=30, k=4, seed=5)
        named = by_cluster(data)
        assert named.classes == 4
        assert named.y.equal(data.details["cluster"])
        assert named.take([3, 1]).details["label"].equal(data.y[[3, 1]])
        with pytest.raises(InputError, match="draw it with d_binary"):
            by_cluster(kou_mixture(n=3, d=5))

    def test_what_cannot_be_is_refused(self) -> None:
        with pytest.raises(InputError, match="raise d"):
            d_binary(n=1, d=3, k=4)
        with pytest.raises(InputError, match="pairwise cosine"):
            d_binary(n=1, d=30, k=4, cosine=-0.5)
        with pytest.raises(InputError, match="did you mean 'gaussian'"):
            d_binary(n=1, d=30, k=4, noise="gausian")  # type: ignore[arg-type]
        with pytest.raises(InputError, match="balance"):
            d_binary(n=1, d=30, k=4, balance=0)


def mixture(seed: int, generator: torch.Generator | None) -> Dataset:
    return kou_mixture(n=6, d=9, seed=seed, generator=generator)


def clusters(seed: int, generator: torch.Generator | None) -> Dataset:
    return d_binary(n=6, d=9, k=4, seed=seed, generator=generator)


@pytest.mark.parametrize("draw", [mixture, clusters])
def test_the_seed_decides_everything(draw: type) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = draw(7, None)
    torch.manual_seed(123)
    state = torch.get_rng_state()
    again = draw(7, None)
    assert torch.get_rng_state().equal(state), "drawing must leave the global generator alone"
    assert first.checksum == again.checksum
    assert first.checksum != draw(8, None).checksum
    assert first.checksum == draw(0, torch.Generator().manual_seed(7)).checksum
    assert not before.equal(state)


def test_separable_points_keep_their_distance_and_their_direction() -> None:
    data = separable(n=60, d=20, margin=0.3, seed=5)
    signs, u = 2.0 * data.y - 1, data.details["direction"]
    assert float((data.x.double() @ u * signs).min()) >= 0.3 - 1e-6
    assert float(u.norm()) == pytest.approx(1.0)
    assert int(signs.sum()) == 0
    section = SeparableData(name="separable", d=20, margin=0.3, seed=5)
    trained = section.build()
    new = section.points(trained, split="test", limit=10)
    assert torch.allclose(new.details["direction"], trained.details["direction"], rtol=1e-12)
    assert not torch.equal(new.x, trained.x[:10])
    lengths = data.x.norm(dim=1)
    assert float(lengths.max() / lengths.min()) < 20  # well-conditioned
    with pytest.raises(InputError, match="margin"):
        separable(n=10, margin=0.0)


def test_separable_classes_keep_their_distance_and_their_directions() -> None:
    section = SeparableClassesData(name="separable-classes", n=30, d=8, classes=4, margin=0.3, seed=5)
    data = section.build()
    u = data.details["directions"]
    assert torch.allclose(u @ u.T, torch.eye(4).double(), atol=1e-12)
    scores = data.x.double() @ u.T
    rivals = scores.scatter(1, data.y[:, None], -torch.inf).amax(1)
    assert float((scores.gather(1, data.y[:, None])[:, 0] - rivals).min()) >= 0.3 - 1e-6
    new = section.points(data, split="test", limit=10)
    assert torch.equal(new.details["directions"], u)
    assert not torch.equal(new.x, data.x[:10])
    with pytest.raises(InputError, match="as many dimensions"):
        separable_classes(n=10, d=3, classes=4)
    with pytest.raises(InputError, match="margin"):
        separable_classes(n=10, margin=0.0)
    with pytest.raises(InputError, match="directions have shape"):
        separable_classes(n=10, d=8, directions=u[:2])


def test_sign_vectors_have_one_size_in_every_coordinate() -> None:
    data = sign_vectors(n=9, d=12, spread=2.0, seed=3)
    sizes = data.x.abs()
    assert torch.equal(sizes, sizes[:, :1].expand_as(sizes))
    assert 1 <= float(sizes.min()) <= float(sizes.max()) <= math.exp(2) * (1 + 1e-6)
    assert torch.equal(data.x[:, 0] > 0, data.y == 1)
    section = SignVectorsData(name="sign-vectors", n=9, d=12, seed=3)
    assert not torch.equal(section.build().x, section.points(section.build(), split="test", limit=None).x)
    with pytest.raises(InputError, match="spread"):
        sign_vectors(n=9, spread=-1.0)
