"""The checks of `stoa doctor` on receivers: each is reached as a delivery reaches it."""

import asyncio
import re
import ssl
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from stoa.access.console import all_shards
from stoa.db import service_facts
from stoa.db.fan_out import FanOut
from stoa.db.pool import Database
from stoa.operations.finding import Finding
from stoa.settings import Settings, WrongSetting
from stoa.webhooks.http.address_guard import AddressRefused, Allowed, check_setting, host_of, refuse_url
from stoa.webhooks.http.connections import Connections, Origin, Unreachable
from stoa.webhooks.http.resolver import UnknownHost

_MAX_RECEIVERS = 20
_CONNECT_S = 3.0

_ORIGIN = re.compile(r"[^/]*//[^/?#]*")


def _one_of_each_host(answers: Sequence[list[str]], _: Sequence[Any]) -> list[str]:
    urls = sorted((url for answer in answers for url in answer), reverse=True)
    found = {origin[0]: url for url in urls if (origin := _ORIGIN.match(url))}
    return [found[origin] for origin in sorted(found)]


RECEIVERS = FanOut(
    str,
    """SELECT DISTINCT ON (substring(url FROM '^[^/]*//[^/?#]*')) url FROM webhooks
        WHERE status = 'active' AND url IS NOT NULL AND ended_at IS NULL AND store_id <> ALL ($2::bigint[])
        ORDER BY substring(url FROM '^[^/]*//[^/?#]*'), url LIMIT $1""",
    _one_of_each_host,
    unbound="the doctor examines the whole service",
)


async def check_receivers(db: Database, settings: Settings) -> list[Finding]:
    """Connect to each receiver as a delivery does, without sending a request."""
    async with all_shards(db, settings) as everywhere:
        urls = (await RECEIVERS.all(everywhere, _MAX_RECEIVERS))[:_MAX_RECEIVERS]
    if not urls:
        return [Finding("receivers", "ok", "no subscription has a URL")]
    allowed, found = await _allowed(db, settings)
    connections = Connections(allowed, _CONNECT_S)
    try:
        results = await asyncio.gather(*(_reach(connections, allowed, url) for url in urls))
    finally:
        connections.close()
    return [*found, *results]


async def _allowed(db: Database, settings: Settings) -> tuple[Allowed, list[Finding]]:
    """The allow-list of the running service, and a finding if the list here is another one."""
    try:
        here = check_setting(settings)
    except WrongSetting:  # a service would not start with this list, so it opens nothing here either
        return Allowed(), []
    noted = await service_facts.noted_webhook_allow(db)
    if noted is None or (allowed := Allowed.parse(noted)) == here:
        return here, []
    own = f"is {settings.webhook_allow!r}" if settings.webhook_allow else "is not set"
    detail = f"the service was started with STOA_WEBHOOK_ALLOW={noted!r}, which decides; here it {own}"
    action = "Set the same value on every machine, and restart the service with it."
    # A shell without the setting is usual; another list may be that of another service.
    status = "warning" if settings.webhook_allow else "ok"
    return allowed, [Finding("allowed addresses", status, detail, action if settings.webhook_allow else "")]


async def _reach(connections: Connections, allowed: Allowed, url: str) -> Finding:
    parts = urlsplit(url)
    host, tls = host_of(parts), parts.scheme == "https"
    port = parts.port or (443 if tls else 80)
    name = f"receiver {host}:{port}"
    refused = refuse_url(url, allowed)
    if refused is not None:
        return Finding(
            name, "warning", f"the URL {refused}", "The address guard blocks it: ask its owner for another URL."
        )
    started = time.perf_counter()
    try:
        async with asyncio.timeout(2 * _CONNECT_S):
            connection = await connections.connect(Origin(host, port, tls, allowed.names(host)))
        connection.close()
    except tuple(_FAILURES) as error:
        detail, action = next(told for kind, told in _FAILURES.items() if isinstance(error, kind))
        return Finding(name, "warning", detail, action)
    return Finding(name, "ok", f"connected in {(time.perf_counter() - started) * 1000:.0f} ms")


_ASK_OWNER = "Ask the receiver's owner; if many fail, check this machine's outbound network, DNS and proxy."
_FAILURES: dict[type[Exception], tuple[str, str]] = {
    AddressRefused: (
        "it resolves to an address that is not public",
        "The address guard blocks it: ask its owner for another URL.",
    ),
    UnknownHost: ("its name does not resolve", _ASK_OWNER),
    Unreachable: ("it refuses connections", _ASK_OWNER),
    ssl.SSLError: ("its certificate is not valid", "Ask the receiver's owner to renew the certificate."),
    TimeoutError: ("it does not respond in time", _ASK_OWNER),
    OSError: ("the connection failed", _ASK_OWNER),
}
