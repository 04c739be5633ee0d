"""Options that several commands share."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from stoa.access.contract import SCOPES

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def _read_scopes(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> list[str] | None:
    """Scopes from repeated options or comma-separated lists; None only if the option is absent, not if it is empty."""
    scopes = [scope for text in given for scope in re.split(r"[,\s]+", text) if scope]
    return list(SCOPES) if "all" in scopes else scopes if given else None


def scopes_option(description: str, *, required: bool = False) -> Callable[[Decorated], Decorated]:
    syntax = "Separate several scopes with commas; `all` selects every scope."
    return click.option(
        "--scope",
        "--scopes",
        "scopes",
        multiple=True,
        required=required,
        callback=_read_scopes,
        help=f"{description} {syntax}",
    )


json_option = click.option("--json", "as_json", is_flag=True, help="Machine-readable output with stable keys.")
