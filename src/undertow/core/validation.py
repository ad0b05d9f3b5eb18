"""Groups of settings from plain data: made whole, or refused in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from undertow.core.config_errors import config_error
from undertow.core.errors import ConfigError
from undertow.core.sections import Section

__all__ = ["refusal", "settings", "validate"]

Config = TypeVar("Config", bound=Section)


def validate(kind: type[Config], document: Any) -> Config:
    """A section from plain data, or one ``ConfigError``.

    >>> from undertow.training.recipe import TrainingSection
    >>> validate(TrainingSection, {"epohcs": 5})
    Traceback (most recent call last):
        ...
    undertow.core.errors.ConfigError: epohcs is not a setting; did you mean 'epochs'?
    """
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        raise refusal(kind, error, document) from None
    except RecursionError:
        raise ConfigError("the configuration is nested too deeply to be one.") from None


def refusal(kind: type[Section], error: ValidationError, document: Any) -> ConfigError:
    """What pydantic found wrong with a document for a section, as one sentence."""
    return config_error(error, lambda path: settings(kind, path, document), tags=_tags(kind))


def settings(kind: type[BaseModel], path: tuple[str, ...], document: Any = None) -> list[str]:
    """The valid names under ``path``; of several kinds of a section, those of the kind in ``document``."""
    for part in path:
        document = document.get(part) if isinstance(document, Mapping) else None
        field = kind.model_fields.get(part)
        kinds = _sections(field.annotation) if field else []
        named = document.get("name") if isinstance(document, Mapping) else None
        chosen = [each for each in kinds if named in _names(each)] or kinds
        if not chosen:
            return []
        kind = chosen[0]
    return list(kind.model_fields)


def _sections(annotation: Any) -> list[type[Section]]:
    """The sections that an annotation names, alone or in a union."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [section for part in get_args(annotation) for section in _sections(part)]


def _names(kind: type[BaseModel]) -> tuple[str, ...]:
    field = kind.model_fields.get("name")
    return get_args(field.annotation) if field else ()


@cache
def _tags(kind: type[Section]) -> frozenset[str]:
    """The names of all sections inside a section: pydantic puts them into the paths of its errors."""
    inside = [each for field in kind.model_fields.values() for each in _sections(field.annotation)]
    return frozenset(name for each in inside for name in (*_names(each), *_tags(each)))
