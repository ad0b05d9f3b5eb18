"""Studies: what can be reproduced, by name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from undertow.core.errors import ConfigError, nearest

if TYPE_CHECKING:
    from undertow.studies.kit.study import Study

__all__ = ["STUDIES", "find"]

STUDIES = {
    "co-correlation": "undertow.studies.co_correlation",
    "feature-averaging": "undertow.studies.feature_averaging",
    "margin": "undertow.studies.margin",
    "optimisers": "undertow.studies.optimisers",
    "other-biases": "undertow.studies.other_biases",
    "stable-rank": "undertow.studies.stable_rank",
}


def find(name: str) -> Study:
    """The study called ``name``.

    >>> find("stable-rnak")
    Traceback (most recent call last):
        ...
    undertow.core.errors.ConfigError: there is no study 'stable-rnak'; did you mean 'stable-rank'?
    """
    if name not in STUDIES:
        raise ConfigError(f"there is no study {name!r}; {nearest(name, STUDIES)}")
    study: Study = importlib.import_module(STUDIES[name]).STUDY
    return study
