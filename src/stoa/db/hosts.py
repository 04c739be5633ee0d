"""Connects to one of several servers: a URL may name the primary and its standbys."""

from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from stoa.db.errors import sqlstate

_last: dict[str, str] = {}  # by URL: the server that accepted the last connection


def single_hosts(url: str) -> list[str]:
    """A URL for each server of `a:5432,b:5432`, in order."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return [url]
    return [urlunsplit(parts._replace(netloc=f"{user}{at}{host}")) for host in hosts.split(",")]


async def open_connection(url: str, **options: Any) -> Any:
    """Connect to the first server that accepts, beginning with the one that accepted last.

    Each server has the whole timeout: asyncpg would spend all of it on a machine that is switched off.
    """
    errors: list[Exception] = []
    for address in sorted(single_hosts(url), key=lambda address: address != _last.get(url)):
        try:
            found = await asyncpg.connect(address, **options)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
        except Exception as error:  # noqa: BLE001 - it is down, starting, full, or a standby
            errors.append(error)
        else:
            _last[url] = address
            return found  # pyright: ignore[reportUnknownVariableType]
    # The reason that a server gave says more than a refused connection.
    raise next((error for error in errors if sqlstate(error)), errors[-1])
