"""Checks receiver addresses: public ones over TLS, and those that the operator allows (protection against SSRF)."""

import asyncio
import ipaddress
import re
import socket
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from stoa.settings import Settings, WrongSetting
from stoa.webhooks.http.resolver import Infos, look_up

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# `ipaddress.is_global` accepts some of these.
_DENIED = [
    ipaddress.ip_network(text)
    for text in """0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12
        192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4
        240.0.0.0/4 2001::/23 2001:db8::/32 2002::/16 3fff::/20""".split()
]
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_HOST = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*"
)
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_MAX_URL_LENGTH = 2048
_RESOLVE_S = 2.0
_MOST_LOOKUPS = 32
DEFAULT_PORTS = {"https": 443, "http": 80}


class AddressRefused(OSError):
    """The host name resolves to an address that may not be called."""


class Allowed(msgspec.Struct, frozen=True):
    """Networks and host names that the operator allows in addition to public addresses, also over plain HTTP."""

    networks: tuple[Network, ...] = ()
    hosts: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> "Allowed":
        """Read a setting such as `localhost, 127.0.0.0/8, ::1`."""
        networks: list[Network] = []
        hosts: list[str] = []
        for word in re.split(r"[\s,]+", text.strip()):
            try:
                networks.append(ipaddress.ip_network(word))
            except ValueError:
                if not word:
                    continue
                if not _HOST.fullmatch(word.lower()) or word.replace(".", "").replace("/", "").isdigit():
                    raise WrongSetting(
                        f"STOA_WEBHOOK_ALLOW: {word!r} is not an address, network or host name"
                    ) from None
                hosts.append(word.lower())
        return cls(tuple(networks), frozenset(hosts))

    def names(self, host: str) -> bool:
        """Whether the host of a URL is allowed: a listed name, or an address in a listed network."""
        address = _literal(host)
        return host in self.hosts if address is None else self.holds(address)

    def holds(self, address: Address) -> bool:
        return any(address in network for network in self.networks)


def check_setting(settings: Settings) -> Allowed:
    """Read the allow-list. A public service must not let its users call addresses inside its own network."""
    allowed = Allowed.parse(settings.webhook_allow)
    if settings.webhook_allow and not ipaddress.ip_address(settings.host).is_loopback:
        raise WrongSetting(
            f"STOA_WEBHOOK_ALLOW is for local development and is refused while STOA_HOST={settings.host}; "
            "bind to 127.0.0.1, or leave it empty"
        )
    return allowed


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public Internet and does not map to an internal one."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address not in _GLOBAL_UNICAST:
            return False
    return not any(address in network for network in _DENIED)


def may_dial(address: Address, allowed: Allowed) -> bool:
    plain = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return is_public(address) or allowed.holds(plain or address)


def open_socket(info: Any, allowed: Allowed) -> socket.socket:
    """Open a socket for a resolved address, which is checked here, directly before the connection."""
    family, kind, protocol, _, address = info
    if not may_dial(ipaddress.ip_address(str(address[0]).partition("%")[0]), allowed):
        raise AddressRefused("the receiver's address is not public")
    return socket.socket(family, kind, protocol)


def refuse_url(url: str, allowed: Allowed) -> str | None:
    """Why a URL is refused, without name resolution; None if it is accepted."""
    if len(url) > _MAX_URL_LENGTH or not _PRINTABLE.fullmatch(url) or "\\" in url:
        return f"must have at most {_MAX_URL_LENGTH} printable ASCII characters and no backslash"
    try:
        parts = urlsplit(url)
        host, port = host_of(parts), parts.port
    except ValueError:
        return "must be a URL"
    if parts.scheme not in ("https", "http") or not host:
        return "must begin with https:// and a host"
    if parts.username is not None or parts.password is not None:
        return "must not contain a user name or password; use headers"
    if parts.fragment or port == 0:
        return "must not contain a fragment or port 0"
    address = _literal(host)
    if address is None and (not _HOST.fullmatch(host) or _looks_numeric(host)):
        return "must have a valid host name or address"
    if allowed.names(host):
        return None
    if parts.scheme != "https":
        return "must use https"
    if address is not None:
        return None if may_dial(address, allowed) else "must have a public address"
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal", ".localdomain")) or "." not in host:
        return "must have a public host name"
    return None


_running: set[asyncio.Task[Infos]] = set()


async def refuse_host(url: str, allowed: Allowed) -> str | None:
    """Why a URL is refused after name resolution. An unknown name is accepted, because it may resolve later, and so is any name
    while too many lookups wait for silent DNS servers."""
    host = host_of(urlsplit(url))
    if allowed.names(host) or len(_running) >= _MOST_LOOKUPS:
        return None
    lookup = asyncio.create_task(look_up(host, 0))
    _running.add(lookup)
    lookup.add_done_callback(_running.discard)
    try:
        async with asyncio.timeout(_RESOLVE_S):
            found = await asyncio.shield(lookup)  # its thread goes on, so it is counted until its end
    except (OSError, TimeoutError, UnicodeError):
        return None
    addresses = {ipaddress.ip_address(str(info[4][0]).partition("%")[0]) for info in found}
    return (
        None if any(may_dial(address, allowed) for address in addresses) else "must have a host with a public address"
    )


def host_of(parts: SplitResult) -> str:
    """The host of a URL in lower case, without the brackets of an IPv6 address and without a final dot."""
    return (parts.hostname or "").lower().removesuffix(".")


def same_receiver(url: str | None, other: str | None) -> bool:
    """Whether both URLs have the same scheme, host and port, so that secrets of one may be sent to the other."""
    try:
        return url == other or (url is not None and other is not None and _origin(url) == _origin(other))
    except ValueError:
        return False


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, host_of(parts), parts.port or DEFAULT_PORTS.get(parts.scheme)


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _looks_numeric(host: str) -> bool:
    # Resolvers read 0x7f.1, 017700000001 and 2130706433 as addresses; no public name ends in a number.
    last = host.rsplit(".", 1)[-1]
    return last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last) is not None
