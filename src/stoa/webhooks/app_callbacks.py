"""The callbacks of an app: the endpoint of its app events, the return addresses of its install links, and their secret.

In every store that installs the app, the endpoint is a subscription of that store, so that its deliveries are queued,
retried, logged and sent again like all others.
"""

import hmac
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec

from stoa.access.addresses import is_host
from stoa.access.app_changes import tell_shards
from stoa.access.apps import LONGEST_GRACE_HOURS
from stoa.access.audit import SERVICE
from stoa.access.contract import AccessRefused, InvalidGrace
from stoa.access.encryption import Cipher
from stoa.access.operator import Operator, lock_app, lock_live_app
from stoa.db.query import Command, Executor, Query
from stoa.db.shards import ABSENT
from stoa.settings import secret_key
from stoa.webhooks.api.subscriptions import host_of
from stoa.webhooks.delivery.decryption import secret_place
from stoa.webhooks.http import address_guard
from stoa.webhooks.http.message import key_of, new_secret

MAX_RETURN_URLS, MAX_URL_LENGTH = 10, 500
_LOCAL = ("localhost", "127.0.0.1", "::1")
_RESUMED, _AS_IT_IS = True, False
_OWNER = "it belongs to an app, on every store"


class Callbacks(msgspec.Struct):
    """An app's callbacks. `signing_secret` is set only when it is new; the previous one signs until `previous_until`."""

    endpoint_url: str | None = None
    return_urls: list[str] = []
    previous_until: datetime | None = None
    signing_secret: str | None = None


class InvalidEndpoint(AccessRefused):
    def __init__(self, reason: str) -> None:
        super().__init__(f"the endpoint {reason}")


class InvalidReturnUrl(AccessRefused):
    def __init__(self, url: str) -> None:
        super().__init__(
            f'"{url[:80]}" is not a return address; use an https URL of at most {MAX_URL_LENGTH} characters without '
            "a fragment, or an http URL on localhost"
        )


class TooManyReturnUrls(AccessRefused):
    def __init__(self) -> None:
        super().__init__(f"an app can have at most {MAX_RETURN_URLS} return addresses; remove one first")


class NoSigningSecret(AccessRefused):
    def __init__(self) -> None:
        super().__init__(
            "the app has no signing secret yet; set an endpoint or a return address, or declare a subscription first"
        )


class SigningRotationActive(AccessRefused):
    def __init__(self) -> None:
        super().__init__("two signing secrets are active already; wait until the older one expires, or use force")


class Row(msgspec.Struct):
    endpoint_url: str | None
    return_urls: list[str]
    sealed_secret: bytes
    sealed_old_secret: bytes | None  # null after it has expired
    old_secret_expires_at: datetime | None


GET = Query(
    Row,
    """SELECT endpoint_url, return_urls, sealed_secret,
              CASE WHEN old_secret_expires_at > now() THEN sealed_old_secret END AS sealed_old_secret,
              CASE WHEN old_secret_expires_at > now() THEN old_secret_expires_at END AS old_secret_expires_at
         FROM app_callbacks WHERE app_id = $1""",
    unbound=_OWNER,
)
SAVE = Command(
    """INSERT INTO app_callbacks (app_id, endpoint_url, return_urls, sealed_secret, updated_at) VALUES ($1, $2, $3, $4, now())
       ON CONFLICT (app_id) DO UPDATE SET endpoint_url = excluded.endpoint_url, return_urls = excluded.return_urls,
           updated_at = excluded.updated_at""",
    unbound=_OWNER,
)
ROTATE = Command(
    """UPDATE app_callbacks
          SET sealed_old_secret = CASE WHEN $3 > 0 THEN sealed_secret END, sealed_secret = $2,
              old_secret_expires_at = now() + CASE WHEN $3 > 0 THEN make_interval(hours => $3) END, updated_at = now()
        WHERE app_id = $1""",
    unbound=_OWNER,
)
# These act on the stores of the directory's own database. Those in shards follow, by `app_rollout`.
ADD_TO_STORES = Query(
    int,
    "SELECT add_app_endpoints($1)",
    unbound=_OWNER,
    over="shard",
)
# Copies the URL and the secrets; $2 also ends that a store's copy is disabled.
COPY_TO_STORES = Command(
    """UPDATE webhooks w
          SET url = c.endpoint_url, sealed_secret = c.sealed_secret, sealed_old_secret = c.sealed_old_secret,
              old_secret_expires_at = c.old_secret_expires_at,
              status = CASE WHEN $2 THEN 'active' ELSE w.status END,
              disabled_reason = CASE WHEN NOT $2 THEN w.disabled_reason END,
              version = version + 1, updated_at = now()
         FROM app_callbacks c
        WHERE c.app_id = $1 AND w.app_id = $1 AND w.of_app AND w.ended_at IS NULL
          AND w.store_id <> ALL ($3::bigint[])""",
    unbound=_OWNER,
    over="shard",
)
# A worker that holds a lane has its old settings.
RESUME_LANES = Query(
    int,
    "SELECT resume_app_lanes($1)",
    unbound=_OWNER,
    over="shard",
)
END_ON_STORES = Command(
    """UPDATE webhooks SET ended_at = now(), url = NULL, version = version + 1, updated_at = now()
        WHERE app_id = $1 AND of_app AND ended_at IS NULL AND store_id <> ALL ($2::bigint[])""",
    unbound=_OWNER,
    over="shard",
)


async def callbacks_of(db: Executor, app_id: int) -> Callbacks:
    row = await GET.maybe(db, app_id)
    return Callbacks() if row is None else Callbacks(row.endpoint_url, row.return_urls, row.old_secret_expires_at)


async def set_callbacks(by: Operator, app: str, *, endpoint_url: str | None, return_urls: Sequence[str]) -> Callbacks:
    """Set the endpoint and the return addresses of an app; the first of them creates its signing secret."""
    await check_endpoint(by, endpoint_url)
    return await save_callbacks(by, app, endpoint_url=endpoint_url, return_urls=return_urls)


async def save_callbacks(by: Operator, app: str, *, endpoint_url: str | None, return_urls: Sequence[str]) -> Callbacks:
    """Set the callbacks of an app, whose endpoint was checked before the transaction."""
    kept = list(dict.fromkeys(return_urls))
    check_return_urls(kept)
    async with by.db.transaction() as db:
        found = await lock_live_app(db, app)
        before = await GET.maybe(db, found.id)
        if before is not None and (before.endpoint_url, before.return_urls) == (endpoint_url, kept):
            return await callbacks_of(db, found.id)
        secret = new_secret() if before is None else None
        encrypted = _encrypted(by, found.id, secret) if secret else b""
        await SAVE.run(db, found.id, endpoint_url, kept, encrypted)
        if endpoint_url is None:
            await END_ON_STORES.run(db, found.id, await ABSENT.all(db))
        elif before is None or before.endpoint_url != endpoint_url:
            await COPY_TO_STORES.run(db, found.id, _RESUMED, await ABSENT.all(db))
            await ADD_TO_STORES.one(db, found.id)
            await RESUME_LANES.one(db, found.id)
        if endpoint_url != (before.endpoint_url if before else None):
            await tell_shards(by, db, found.id, resumed=True)
        old, new = (_hosts(before.endpoint_url, before.return_urls) if before else {}), _hosts(endpoint_url, kept)
        replaced = {name: value for name, value in old.items() if value != new[name]}
        await by.record(db, SERVICE, "app.callbacks_changed", f"app:{found.id}", **new, before=replaced)
        return msgspec.structs.replace(await callbacks_of(db, found.id), signing_secret=secret)


def _hosts(endpoint_url: str | None, return_urls: Sequence[str]) -> dict[str, Any]:
    """The callbacks as the audit log names them."""
    return {"endpoint_host": host_of(endpoint_url), "return_hosts": [host_of(url) for url in return_urls]}


async def ensure_secret(db: Executor, by: Operator, app_id: int) -> str | None:
    """Create the signing secret of an app that has none yet, in the caller's transaction, which has locked the app."""
    if await GET.maybe(db, app_id) is not None:
        return None
    secret = new_secret()
    await SAVE.run(db, app_id, None, [], _encrypted(by, app_id, secret))
    return secret


async def rotate_signing_secret(by: Operator, app: str, *, grace_hours: int = 24, force: bool = False) -> Callbacks:
    """Create a new signing secret. Both secrets sign until the grace period ends; with 0 the old one stops immediately."""
    if not 0 <= grace_hours <= LONGEST_GRACE_HOURS:
        raise InvalidGrace
    secret = new_secret()
    async with by.db.transaction() as db:
        found = await lock_app(db, app)
        before = await GET.maybe(db, found.id)
        if before is None:
            raise NoSigningSecret
        if before.sealed_old_secret is not None and not force:
            raise SigningRotationActive
        await ROTATE.run(db, found.id, _encrypted(by, found.id, secret), grace_hours)
        await COPY_TO_STORES.run(db, found.id, _AS_IT_IS, await ABSENT.all(db))
        await RESUME_LANES.one(db, found.id)
        await tell_shards(by, db, found.id, new_secret=True)
        await by.record(db, SERVICE, "app.signing_secret_rotated", f"app:{found.id}", grace_hours=grace_hours)
        return msgspec.structs.replace(await callbacks_of(db, found.id), signing_secret=secret)


async def resume_endpoint(by: Operator, app: str) -> None:
    """Send again on the stores on which the endpoint was disabled, beginning with what waits there."""
    async with by.db.transaction() as db:
        found = await lock_app(db, app)
        await COPY_TO_STORES.run(db, found.id, _RESUMED, await ABSENT.all(db))
        await RESUME_LANES.one(db, found.id)
        await tell_shards(by, db, found.id, resumed=True)
        await by.record(db, SERVICE, "app.endpoint_resumed", f"app:{found.id}")


async def check_endpoint(by: Operator, url: str | None) -> None:
    """Refuse an endpoint to which the service does not send; the host is resolved, which may be slow."""
    if url is not None:
        allowed = address_guard.Allowed.parse(by.settings.webhook_allow)
        why = address_guard.refuse_url(url, allowed) or await address_guard.refuse_host(url, allowed)
        if why is not None:
            raise InvalidEndpoint(why)


def check_return_urls(return_urls: Sequence[str]) -> None:
    for url in return_urls:
        if not _is_return_url(url):
            raise InvalidReturnUrl(url)
    if len(return_urls) > MAX_RETURN_URLS:
        raise TooManyReturnUrls


def _is_return_url(url: str) -> bool:
    if len(url) > MAX_URL_LENGTH or not (url.isascii() and url.isprintable()) or any(each in url for each in ' "<>\\#'):
        return False
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return False
    allowed = parts.scheme == "https" or (parts.scheme == "http" and host in _LOCAL)
    return allowed and (is_host(host) or host in _LOCAL) and "@" not in parts.netloc


def _encrypted(by: Operator, app_id: int, secret: str) -> bytes:
    return Cipher(secret_key(by.settings)).encrypt(secret, *secret_place(0, 0, app_id, shared=True))


async def signing_secrets(db: Executor, cipher: Cipher, app_id: int) -> list[str]:
    """The active signing secrets of an app, newest first; none if it has no callbacks yet."""
    row, place = await GET.maybe(db, app_id), secret_place(0, 0, app_id, shared=True)
    sealed = [] if row is None else [row.sealed_secret, row.sealed_old_secret]
    return [cipher.decrypt(each, *place) for each in sealed if each is not None]


# --- install links ----------------------------------------------------------------------------------------------------


def install_content(client_id: str, store: str, timestamp: int, state: str) -> bytes:
    """The text that the signature of a completed install covers; only `state` can contain a period.

    It begins differently from the text of a delivery, whose signature has the same key: no event id contains a period. For
    receivers that do not check the id, `state` contains no `{`, with which the body of an event would begin.
    """
    return f"install.{client_id}.{store}.{timestamp}.{state}".encode()


async def install_signature(by: Operator, app_id: int, content: bytes) -> str:
    """One hexadecimal HMAC-SHA256 for each active signing secret, newest first, separated by commas."""
    keys = [key_of(each) for each in await signing_secrets(by.db, Cipher(secret_key(by.settings)), app_id)]
    return ",".join(hmac.digest(key, content, "sha256").hex() for key in keys)
