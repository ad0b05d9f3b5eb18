"""The talk's two figures, margins and loss by both rules and robust accuracy against ε, and what stands beside them."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.scatter_plot import ScatterPlot
from undertow.studies.kit.readings import side_by_side, stacked
from undertow.studies.kit.statements import Figures
from undertow.studies.margin.curves_of_loss import SMALL_LOSS, against_loss
from undertow.studies.margin.table.claims import TEST, margins_and_errors, models, radii_of_models

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("table",))
_RADII = 40
_RULES = {"rule-loss-based": "loss-based rate", "rule-constant": "constant rate"}
_SHOWN = {"log10-loss": "log₁₀ 𝓛", "normalised": "normalised margin q_min/ρ^L"}


@FIGURES.add("margin-table", "Normalised margins at the losses of the table", so_far=True)
def margins(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Both normalisations against log₁₀ 1/loss, each relative to the first model's."""
    names = {"normalised": "by ρ^L", "by-layers": "by the product of the layers' norms"}
    rows = models(frame, "margins").filter(polars.col("key").is_in(list(names)))
    first = polars.col("value").sort_by("step").first()
    shown = rows.with_columns(
        value=polars.col("value") / first.over("seed", "key"),
        fallen=polars.col("fallen").median().over("model"),
        kind=polars.col("key").replace_strict(names),
    )
    return LinePlot(
        x="fallen",
        x_axis=Axis("log₁₀ 1/loss", log=True),
        y=Axis("margin, relative to the first model's", log=True),
        colour="kind",
        points=True,
        title="Networks on their way to smaller losses",
    ).draw(shown)


@FIGURES.add(
    "longest-margin", "Normalised margins of one network as its loss falls", parts=("longest",), so_far=True
)
@FIGURES.add("vgg-margin", "And of VGG16 on CIFAR-10, of order 14", parts=("vgg",))
@FIGURES.add("vgg-margin-loss-based", "And by the loss-based rule", parts=("vgg-loss-based",), so_far=True)
def longest_margin(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Margins relative to where every point was first classified, against log₁₀ 1/𝓛."""
    names = {"normalised": "q_min/ρ^L", "smoothed": "smoothed", "by-layers": "by the layers' norms"}
    rows = stacked(against_loss(frame, by=["seed"], after=-0.5), names, by=["seed", "fallen"])
    shown = rows.filter(polars.col("value") > 0)
    return LinePlot(
        x="fallen",
        x_axis=Axis("log₁₀ 1/𝓛", log=True),
        y=Axis("margin, relative to the first", log=True),
        colour="curve",
        colours=list(names.values()),
        title="Margins over their first reading",
    ).draw(shown.with_columns(polars.col("value") / polars.col("value").first().over("seed", "curve")))


@FIGURES.add("both-rules", "Loss and margin against epochs by both rules", parts=tuple(_RULES), so_far=True)
def both_rules(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The talk's first figure: 𝓛 and, from each network's own t0 on, γ̄ over epochs that were kept."""
    by = ["seed", "part", "step", "epoch"]
    table = side_by_side(frame, "margins", by=by).filter(polars.col("epoch") > 0)
    margin = polars.when(polars.col("log10-loss") < SMALL_LOSS).then(polars.col("normalised"))
    shown = stacked(table.with_columns(normalised=margin), _SHOWN, by=by).drop_nulls("value")
    return LinePlot(
        x="epoch",
        x_axis=Axis("epochs kept", log=True),
        y="value",
        colour="rule",
        colours=list(_RULES.values()),
        column="curve",
        own_y=True,
        title="Loss and normalised margin",
        size=(280, 200),
    ).draw(shown.with_columns(rule=polars.col("part").replace_strict(_RULES)).sort("curve", "epoch"))


@FIGURES.add(
    "robust-curves",
    "Robust accuracy against ε for every model, train and test",
    parts=("table", "longest"),
    so_far=True,
)
def robust_curves(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The talk's second figure: the share of points whose attacked radius is above ε; dashed: what is proved."""
    found = []
    for measure, panel in {"point-radii": "training points", TEST: "test points"}.items():
        table = radii_of_models(frame, measure)
        proved = "certified" if "certified" in table.columns else "product"
        most = float(table["attacked"].max())  # type: ignore[arg-type]
        places = polars.DataFrame({"eps": [most * place / _RADII for place in range(_RADII + 1)]})
        for side, kind in {"attacked": "attacked", proved: "proved"}.items():
            share = (polars.col(side) > polars.col("eps")).mean()
            own = table.join(places, how="cross").group_by("seed", "model", "eps").agg(value=share)
            found.append(own.with_columns(panel=polars.lit(panel), kind=polars.lit(kind)))
    return _curves(polars.concat(found), table, "Points that every model of a seed classifies correctly")


@FIGURES.add(
    "bound-apart",
    "The two sides of R ≥ γ/β(θ̂) apart: margins of the normalised network, and its slope",
    so_far=True,
)
def bound_apart(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Of θ̂ = θ/ρ, means over points relative to the first model's: q/ρ^L, β/ρ^L for either β, the radius attacked.

    A larger margin is a larger radius as far as β does not rise with it. β is q over the radius that it proves.
    """
    kinds = {
        "margin": "margin q/ρ^L",
        "ball": "β over a ball",
        "product": "β, layers' norms",
        "attacked": "radius",
    }
    by = ["seed", "model"]
    size = models(frame, "margins").pivot("key", index=by, values="value")
    scale = size.select(*by, scale=polars.col("norm").pow(polars.col("order")))
    found = []
    for measure, panel in {"point-radii": "training points", TEST: "test points"}.items():
        table = radii_of_models(frame, measure).join(scale, on=by)
        margin = polars.col("margin") / polars.col("scale")
        slopes = {side: margin / polars.col(side) for side in ("ball", "product") if side in table.columns}
        means = table.group_by(*by).agg(
            polars.col("fallen").first(),
            polars.col("attacked").mean(),
            margin=margin.mean(),
            **{side: slope.filter(polars.col(side) > 0).mean() for side, slope in slopes.items()},
        )
        sides = {name: kinds[name] for name in kinds if name in means.columns}
        rows = stacked(means.sort("model"), sides, by=[*by, "fallen"]).sort("model")
        found.append(rows.with_columns(panel=polars.lit(panel)))
    shown = polars.concat(found).with_columns(
        value=polars.col("value") / polars.col("value").first().over("seed", "curve", "panel"),
        fallen=polars.col("fallen").median().over("model"),
    )
    return LinePlot(
        x="fallen",
        x_axis=Axis("log₁₀ 1/loss", log=True),
        y=Axis("relative to the first model's", log=True),
        colour="curve",
        colours=[kind for kind in kinds.values() if kind in set(shown["curve"])],
        column="panel",
        points=True,
        title="Points that every model of a seed classifies correctly",
        size=(280, 220),
    ).draw(shown)


@FIGURES.add(
    "robust-curves-cw", "Robust accuracy by Carlini and Wagner's attack", parts=("carlini",), so_far=True
)
def by_carlini(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The same by the attack that the talk has: the share of all points that it does not move across within ε."""
    found = []
    for split, panel in {"": "training points", "@test": "test points"}.items():
        table = models(frame, f"robust-accuracy{split}")
        own = table.with_columns(eps=polars.col("key").cast(polars.Float64), panel=polars.lit(panel))
        found.append(own.select("seed", "model", "eps", "value", "panel", kind=polars.lit("attacked")))
    # It has the table's first and last loss, and what stands last there is not its second model.
    return _curves(polars.concat(found), table, "Attack of Carlini and Wagner", numbered=False)


def _curves(
    shares: polars.DataFrame, losses: polars.DataFrame, title: str, *, numbered: bool = True
) -> altair.TopLevelMixin:
    """Shares of points against ε, a line for each model, which is named by the loss it has come down to."""
    depth = losses.group_by("model").agg(polars.col("fallen").median().round(0).cast(polars.Int64))
    name = polars.format("model-{}, 10^-{}" if numbered else "10^-{}", *["model"] * numbered, "fallen")
    return LinePlot(
        x="eps",
        x_axis=Axis("ε, L2"),
        y=Axis("share of points that survive", domain=(0.0, 1.0)),
        colour="name",
        legend="model and its loss" if numbered else "loss",
        dash="kind",
        dashes={"attacked": [1, 0], "proved": [4, 3]},
        column="panel",
        band=False,
        title=title,
        size=(280, 220),
    ).draw(shares.join(depth, on="model").with_columns(name=name).sort("panel", "model", "eps"))


@FIGURES.add("margin-and-error", "Normalised margin and test error of several starts", parts=("starts",))
@FIGURES.add(
    "margin-and-error-labels", "The same with random labels mixed in", parts=("mixed",), axis="share"
)
def margin_and_error(frame: polars.DataFrame, axis: str = "std") -> altair.TopLevelMixin:
    """A point for each network, at equal training loss."""
    return ScatterPlot(
        x="margin",
        y="error",
        x_axis=Axis("normalised margin", log=True),
        y_axis=Axis("test error"),
        colour=axis,
        legend={"std": "start σ", "share": "random labels"}[axis],
        title="Two layers that fit all training points",
    ).draw(margins_and_errors(frame, axis))
