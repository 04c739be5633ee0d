"""Webhook verification, compared with the reference library of Standard Webhooks."""

import base64
import hmac
import json
import secrets
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from stoa_client import Event, SignatureRefused, verify
from stoa_client.webhooks import check, store_of

EVENT: dict[str, Any] = {
    "id": "evt_1",
    "type": "product.created",
    "timestamp": "2026-03-02T09:14:07.120583Z",
    "api_version": "v3",
    "store": {"id": 7, "handle": "demo", "base_url": "https://api.example.com/stores/demo"},
    "sequence": 88123,
    "resource": {"type": "product", "id": 512, "version": 9, "url": "/api/v3/app/products/512"},
    "actor": {"type": "app", "app_id": 3},
    "changes": {"status": ["draft", "active"]},
    "data": {"id": 512, "name": "Mug"},
}
BODY = json.dumps(EVENT).encode()


def new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(33)).decode()


SECRET = new_secret()


def signed(secret: str, body: bytes = BODY, *, at: float | None = None, id: str = "msg_1") -> dict[str, str]:
    moment = datetime.fromtimestamp(time.time() if at is None else at, UTC)
    return {
        "Webhook-Id": id,
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": Webhook(secret).sign(id, moment, body.decode()),
    }


def test_a_signed_message_is_parsed() -> None:
    secret = new_secret()
    event = verify(BODY, signed(secret), secret)
    assert isinstance(event, Event)
    assert (event.id, event.type, event.sequence) == ("evt_1", "product.created", 88123)
    assert event.resource is not None
    assert (event.resource.id, event.resource.version) == (512, 9)


@given(body=st.text(max_size=200).filter(lambda text: "\x00" not in text), secret=st.builds(new_secret))
def test_signatures_of_the_reference_library_are_accepted(body: str, secret: str) -> None:
    check(body.encode("utf-8", "replace"), signed(secret, body.encode("utf-8", "replace")), secret)


def altered(**changes: str) -> dict[str, str]:
    return {**signed(SECRET), **changes}


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (altered(), BODY + b" "),
        (altered(**{"Webhook-Id": "msg_2"}), BODY),
        (altered(**{"webhook-timestamp": str(int(time.time()) + 30)}), BODY),
        (altered(**{"webhook-signature": "v1,"}), BODY),
        (altered(**{"webhook-signature": signed(SECRET)["webhook-signature"].replace("v1", "v2")}), BODY),
        (altered(**{"webhook-timestamp": "now"}), BODY),
        (altered(**{"webhook-timestamp": "9" * 400}), BODY),
        (altered(**{"webhook-timestamp": "\u0663"}), BODY),
        ({"webhook-id": "msg_1"}, BODY),
        (signed(SECRET, at=time.time() - 3000), BODY),
        (signed(SECRET, at=time.time() + 3000), BODY),
        (signed(new_secret()), BODY),
    ],
)
def test_an_altered_message_is_refused(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(SignatureRefused):
        verify(body, headers, SECRET)
    with pytest.raises((WebhookVerificationError, ValueError, OverflowError)):
        Webhook(SECRET).verify(body, {name.lower(): value for name, value in headers.items()})


def test_an_id_with_a_period_is_refused() -> None:
    """A return from an install link is signed with the same secret, over a text that has periods."""
    at = int(time.time())
    headers = {**signed(SECRET, at=at, id="install.stoa_ci_1.demo"), "webhook-store": "7"}
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    named = hmac.digest(key, f"store.install.stoa_ci_1.demo.{at}.7".encode(), "sha256")
    headers["webhook-signature"] += f" v1s,{base64.b64encode(named).decode()}"
    with pytest.raises(SignatureRefused, match="webhook-id"):
        verify(BODY, headers, SECRET)
    with pytest.raises(SignatureRefused, match="webhook-id"):
        store_of(headers, SECRET)


def test_during_a_rotation_either_secret_is_accepted() -> None:
    old, new = new_secret(), new_secret()
    both = signed(new)
    both["webhook-signature"] += " " + signed(old)["webhook-signature"]
    assert verify(BODY, both, old).id == "evt_1"
    assert verify(BODY, both, new).id == "evt_1"
    assert verify(BODY, signed(old), [new, old]).id == "evt_1"


def test_a_clock_that_is_off_is_within_the_tolerance_or_refused() -> None:
    for offset in (-299, 299):
        assert verify(BODY, signed(SECRET, at=time.time() + offset), SECRET).id == "evt_1"
    for offset in (-310, 310):
        with pytest.raises(SignatureRefused, match="check the clock"):
            verify(BODY, signed(SECRET, at=time.time() + offset), SECRET)
    with pytest.raises(SignatureRefused, match="check the clock"):
        verify(BODY, signed(SECRET), SECRET, tolerance_s=float("nan"))


def test_an_old_message_can_be_verified_on_purpose() -> None:
    secret = new_secret()
    headers = signed(secret, at=1_700_000_000)
    assert verify(BODY, headers, secret, now=1_700_000_000).id == "evt_1"
    assert verify(BODY, headers, secret, tolerance_s=10**10).id == "evt_1"


def test_an_invalid_secret_is_a_value_error() -> None:
    headers = signed(new_secret())
    wrong: list[str | list[str]] = ["whsec_not base64", "whsec_é", "whsec_", "", [], [SECRET, ""]]
    for secret in wrong:
        with pytest.raises(ValueError, match="secret"):
            verify(BODY, headers, secret)


def test_a_signed_body_that_is_no_event_is_refused() -> None:
    secret = new_secret()
    with pytest.raises(SignatureRefused, match="not an event"):
        verify(b"[]", signed(secret, b"[]"), secret)


def test_a_message_of_an_app_subscription_names_its_store() -> None:
    at = int(time.time())
    headers = {**signed(SECRET, at=at), "webhook-store": "7"}
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    named = base64.b64encode(hmac.digest(key, f"store.msg_1.{at}.7".encode(), "sha256")).decode()
    with pytest.raises(SignatureRefused):
        verify(BODY, headers, SECRET)  # without the signature of the store
    headers["webhook-signature"] += f" v1s,{named}"
    event = verify(BODY, headers, SECRET)
    assert event.store is not None
    assert store_of(headers, SECRET) == store_of(headers, [new_secret(), SECRET]) == event.store.id == 7
    for wrong in ({"webhook-store": "8"}, {"webhook-store": "seven"}, {"webhook-timestamp": str(at + 1)}):
        with pytest.raises(SignatureRefused):
            store_of({**headers, **wrong}, SECRET)
        with pytest.raises(SignatureRefused):
            verify(BODY, {**headers, **wrong}, SECRET)
    body = json.dumps({**EVENT, "store": {**EVENT["store"], "id": 8}}).encode()
    mixed = {**signed(SECRET, body, at=at), "webhook-store": "7"}
    mixed["webhook-signature"] += f" v1s,{named}"
    with pytest.raises(SignatureRefused, match="another store"):
        verify(body, mixed, SECRET)
    with pytest.raises(SignatureRefused, match="webhook-store is required"):
        store_of(signed(SECRET), SECRET)
