"""The Python SDK: a typed client for the API, with automatic tokens, retries and pagination."""

from stoa_client import codes, errors, inputs, models, webhooks
from stoa_client.answers import Answer, Batch, Item, Page, Tombstone
from stoa_client.client import AsyncClient, Client
from stoa_client.errors import ApiError, ConnectionFailed, DeadlineExceeded, NotModified, StoaError, TokenRefused
from stoa_client.hooks import RequestInfo, ResponseInfo
from stoa_client.imports import RowReport
from stoa_client.installs import CompletedInstall, Installation, InstallRefused, installations, verify_install
from stoa_client.pages import AsyncPages, Pages
from stoa_client.private_keys import PrivateKey
from stoa_client.time_limits import deadline
from stoa_client.version import __version__
from stoa_client.webhooks import Event, SignatureRefused, verify

__all__ = [
    "Answer",
    "ApiError",
    "AsyncClient",
    "AsyncPages",
    "Batch",
    "Client",
    "CompletedInstall",
    "ConnectionFailed",
    "DeadlineExceeded",
    "Event",
    "InstallRefused",
    "Installation",
    "Item",
    "NotModified",
    "Page",
    "Pages",
    "PrivateKey",
    "RequestInfo",
    "ResponseInfo",
    "RowReport",
    "SignatureRefused",
    "StoaError",
    "TokenRefused",
    "Tombstone",
    "__version__",
    "codes",
    "deadline",
    "errors",
    "inputs",
    "installations",
    "models",
    "verify",
    "verify_install",
    "webhooks",
]
