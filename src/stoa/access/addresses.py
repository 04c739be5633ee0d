"""Finds the store that a URL names: by its host, by its path, or by a resource indicator (RFC 8707)."""

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from stoa.rest.dispatch import PREFIX

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HANDLE = re.compile(_LABEL)
_HOST = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_ORIGIN = r"https?://(?P<host>[A-Za-z0-9.:\[\]-]+)"
_STORE = r"(?P<base>(?:/[^/?#\s]+)*)/stores/(?P<handle>[^/?#\s]+)"
_RESOURCE = re.compile(rf"{_ORIGIN}(?:{_STORE})?{PREFIX}")
_MCP_RESOURCE = re.compile(rf"{_ORIGIN}{_STORE}/mcp")
_DEFAULT_PORT = re.compile(r":(?:80|443)(?=/|\Z)")


class StoreAddress(msgspec.Struct, frozen=True):
    """A store's handle, or a host that may be one of its custom hosts; neither if the URL names no store."""

    handle: str = ""
    host: str = ""


NO_STORE = StoreAddress()
YOUR_STORE = "YOUR-STORE"  # stands for a handle in samples; no handle has capital letters


class ServiceUrls(msgspec.Struct, frozen=True):
    """The URLs of the service as the sender of a request sees them."""

    scheme: str
    host: str
    public_url: str

    @property
    def service(self) -> str:
        return self.public_url.rstrip("/") or f"{self.scheme}://{self.host}"

    def resource(self, handle: str | None) -> str:
        """The URL of a store's API: under the service if the path names the store, else on the request's host."""
        if handle is not None:
            return f"{base_url(self.service, handle)}{PREFIX}"
        return f"{self.public_url.partition('://')[0] or self.scheme}://{self.host}{PREFIX}"


def base_url(service_url: str, handle: str) -> str:
    """The base URL of a store, in the form that works on every service."""
    return f"{service_url}/stores/{handle}"


def is_handle(text: str) -> bool:
    return _HANDLE.fullmatch(text) is not None


def is_host(text: str) -> bool:
    return _HOST.fullmatch(text) is not None


def named_by_path(handle: str) -> StoreAddress:
    return StoreAddress(handle=handle) if is_handle(handle) else NO_STORE


@lru_cache(maxsize=256)  # a sender chooses the host, which may be as long as all header fields
def named_by_host(host: str, store_domain: str) -> StoreAddress:
    """The store that a Host header names: `{handle}.{store_domain}`, or a custom host."""
    name = host.lower().partition(":")[0].removesuffix(".")
    handle = name.removesuffix(f".{store_domain.lower()}")
    if handle != name and is_handle(handle):
        return StoreAddress(handle=handle)
    return StoreAddress(host=name) if is_host(name) else NO_STORE


def named_by_resource(resource: str, store_domain: str, services: Iterable[str]) -> StoreAddress:
    """The store that a resource indicator names: its `{base_url}/api/v3/app`, in path form or in host form."""
    found = _RESOURCE.fullmatch(resource)
    if found is None:
        return NO_STORE
    if found["handle"] is None:
        return named_by_host(found["host"], store_domain)
    service = _normalized(found["host"] + found["base"])
    return named_by_path(found["handle"]) if service in map(_normalized, services) else NO_STORE


def named_by_mcp_resource(resource: str, mcp_url: str) -> StoreAddress | None:
    """The store whose MCP server a resource indicator names: `{mcp_url}/stores/{handle}/mcp`; None if it names none."""
    found = _MCP_RESOURCE.fullmatch(resource) if mcp_url else None
    if found is None or _normalized(found["host"] + found["base"]) != _normalized(mcp_url):
        return None
    return named_by_path(found["handle"])


def _normalized(service: str) -> str:
    """A URL without the parts in which two spellings of it may differ: scheme, case, default port."""
    address = service.lower().removeprefix("https://").removeprefix("http://")
    return _DEFAULT_PORT.sub("", address).rstrip("/")
