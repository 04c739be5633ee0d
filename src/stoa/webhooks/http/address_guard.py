"""Which addresses a delivery may go to: public ones over TLS, and what the operator has allowed besides."""

import asyncio
import ipaddress
import re
import socket
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from stoa.settings import Settings, WrongSetting

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# The library's own word on what is public lets some of these pass, so we keep a list.
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
_LONGEST_URL = 2048
_RESOLVE_S = 2.0


class AddressRefused(OSError):
    """The address that a name stands for is none that we may call."""


class Allowed(msgspec.Struct, frozen=True):
    """What the operator allows besides public addresses, plain http included: networks, and names whatever they mean."""

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
                    raise WrongSetting(f"STOA_WEBHOOK_ALLOW: {word!r} is no address, network or host name") from None
                hosts.append(word.lower())
        return cls(tuple(networks), frozenset(hosts))

    def names(self, host: str) -> bool:
        """Whether a URL's host is allowed by itself: a listed name, or an address inside a listed network."""
        address = _literal(host)
        return host in self.hosts if address is None else self.holds(address)

    def holds(self, address: Address) -> bool:
        return any(address in network for network in self.networks)


def check_setting(settings: Settings) -> Allowed:
    """Read the allow-list; a service that strangers reach must not call addresses inside its own network for them."""
    allowed = Allowed.parse(settings.webhook_allow)
    if settings.webhook_allow and not ipaddress.ip_address(settings.host).is_loopback:
        raise WrongSetting(
            f"STOA_WEBHOOK_ALLOW is for local development and is refused while STOA_HOST={settings.host}; "
            "listen on 127.0.0.1, or leave it empty"
        )
    return allowed


def is_public(address: Address) -> bool:
    """Whether an address is one of the public Internet, and no way back inside."""
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
    """A socket for an address that was resolved just now: what is vetted here is what is dialled."""
    family, kind, protocol, _, place = info
    if not may_dial(ipaddress.ip_address(str(place[0]).partition("%")[0]), allowed):
        raise AddressRefused("the receiver's address is not public")
    return socket.socket(family, kind, protocol)


def refuse_url(url: str, allowed: Allowed) -> str | None:
    """Why deliveries may not go to a URL, as far as it can be told without asking anybody; None when they may."""
    if len(url) > _LONGEST_URL or not _PRINTABLE.fullmatch(url) or "\\" in url:
        return f"a URL has at most {_LONGEST_URL} printable ASCII characters and no backslash"
    try:
        parts = urlsplit(url)
        host, port = host_of(parts), parts.port
    except ValueError:
        return "this is no URL"
    if parts.scheme not in ("https", "http") or not host:
        return "a URL begins with https:// and a host"
    if parts.username is not None or parts.password is not None:
        return "a URL holds no user name or password; use headers"
    if parts.fragment or port == 0:
        return "a URL holds no fragment, and no port 0"
    address = _literal(host)
    if address is None and (not _HOST.fullmatch(host) or _looks_numeric(host)):
        return "the host is no name and no address"
    if allowed.names(host):
        return None
    if parts.scheme != "https":
        return "only https is delivered to"
    if address is not None:
        return None if may_dial(address, allowed) else "the address is not public"
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal", ".localdomain")) or "." not in host:
        return "the host is not public"
    return None


async def refuse_host(url: str, allowed: Allowed) -> str | None:
    """Why not, now that its name is looked up; a name that is not known yet may become known later."""
    host = host_of(urlsplit(url))
    if allowed.names(host):
        return None
    try:
        async with asyncio.timeout(_RESOLVE_S):
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError):
        return None
    addresses = {ipaddress.ip_address(str(info[4][0]).partition("%")[0]) for info in found}
    return None if any(may_dial(address, allowed) for address in addresses) else "the host has no public address"


def host_of(parts: SplitResult) -> str:
    """A URL's host in lower case, an IPv6 address without its brackets, a final dot taken off."""
    return (parts.hostname or "").lower().removesuffix(".")


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _looks_numeric(host: str) -> bool:
    # Resolvers read 0x7f.1, 017700000001 and 2130706433 as addresses; no public name ends in a number.
    last = host.rsplit(".", 1)[-1]
    return last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last) is not None
