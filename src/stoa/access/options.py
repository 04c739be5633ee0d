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


def grace_options(old_secret: str) -> Callable[[Decorated], Decorated]:
    """The options of a rotation: how long the old secret is of use, and whether an active rotation ends."""
    hours = click.option(
        "--grace-hours",
        type=int,
        default=24,
        show_default=True,
        help=f"How long the old secret {old_secret}, 0-168; use 0 if it leaked.",
    )
    force = click.option("--force", is_flag=True, help="End an older secret that is still in its grace period.")
    return lambda command: hours(force(command))
