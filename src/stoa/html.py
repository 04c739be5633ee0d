"""The Jinja environment that all HTML pages use: it escapes every value and fails on undefined names."""

from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def environment(package: str, **filters: Callable[..., Any]) -> Environment:
    """The environment for the folder `templates` of a package."""
    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(filters)
    return made
