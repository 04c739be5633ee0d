"""Opens the encrypted signing secrets and custom headers of a subscription."""

import msgspec
import structlog

from stoa.access.encryption import Cipher, Undecryptable
from stoa.webhooks.delivery.queries import Subscription
from stoa.webhooks.http.client import Target


def secret_place(store_id: int, webhook_id: int, app_id: int, *, shared: bool) -> tuple[str, str, int, int]:
    """What a signing secret is bound to: its subscription, or the app that uses it on all stores."""
    return ("app_callbacks", "secret", 0, app_id) if shared else ("webhooks", "secret", store_id, webhook_id)


def decrypt(cipher: Cipher, subscription: Subscription) -> Target | None:
    """The receiver of a subscription with its secrets in clear; None if it has no URL or its secrets cannot be read."""
    if subscription.url is None:
        return None
    row = (subscription.store_id, subscription.id)
    shared = subscription.of_app or subscription.managed
    place = secret_place(*row, subscription.app_id, shared=shared)
    try:
        encrypted = [subscription.sealed_secret, subscription.sealed_old_secret]
        secrets = [cipher.decrypt(each, *place) for each in encrypted if each is not None]
        headers: dict[str, str] = {}
        if subscription.sealed_headers is not None:
            text = cipher.decrypt(subscription.sealed_headers, "webhooks", "headers", *row)
            headers = msgspec.json.decode(text, type=dict[str, str])
    except Undecryptable as error:
        structlog.get_logger().error(
            "decrypting a webhook failed", store_id=subscription.store_id, error=type(error).__name__
        )
        return None
    return Target(subscription.url, secrets, headers, store_id=subscription.store_id if shared else None)
