"""Keeps personal data out of logs: httpx logs each URL at INFO, and filters such as `email` and `q` are in the query."""

import logging
from typing import Any

import httpx

from stoa_client.requests import PREFIX


class WithoutQuery(logging.Filter):
    """Removes the query from URLs of the app API; other requests of the program are logged as before."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(map(_without_query, record.args))
        return True


def _without_query(value: Any) -> Any:
    if isinstance(value, httpx.URL) and value.query and PREFIX in value.path:
        return value.copy_with(query=None)
    return value


def protect() -> None:
    """Install the filter, once."""
    logger = logging.getLogger("httpx")
    if not any(isinstance(each, WithoutQuery) for each in logger.filters):
        logger.addFilter(WithoutQuery())
