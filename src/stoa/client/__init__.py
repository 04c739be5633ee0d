"""The Python SDK: a typed client for the API, with automatic tokens, retries and pagination."""

from stoa.client import codes, errors, inputs, models, webhooks
from stoa.client.answers import Answer, Batch, Item, Page, Tombstone
from stoa.client.client import AsyncClient, Client
from stoa.client.errors import ApiError, ConnectionFailed, NotModified, StoaError, TokenRefused
from stoa.client.imports import RowReport
from stoa.client.installs import CompletedInstall, Installation, InstallRefused, installations, verify_install
from stoa.client.pages import AsyncPages, Pages
from stoa.client.webhooks import Event, SignatureRefused, verify

__all__ = [
    "Answer",
    "ApiError",
    "AsyncClient",
    "AsyncPages",
    "Batch",
    "Client",
    "CompletedInstall",
    "ConnectionFailed",
    "Event",
    "InstallRefused",
    "Installation",
    "Item",
    "NotModified",
    "Page",
    "Pages",
    "RowReport",
    "SignatureRefused",
    "StoaError",
    "TokenRefused",
    "Tombstone",
    "codes",
    "errors",
    "inputs",
    "installations",
    "models",
    "verify",
    "verify_install",
    "webhooks",
]
