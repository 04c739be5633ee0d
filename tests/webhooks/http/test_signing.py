"""Signatures that the Standard Webhooks libraries verify, encrypted secrets, and delivery ids."""

import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from stoa.access.encryption import Cipher, Undecryptable
from stoa.secret_keys import Keys
from stoa.webhooks.api.delivery_ids import delivery_id, parse_delivery_id
from stoa.webhooks.http.message import base_string, new_secret, sign

BODY = '{"id":"evt_1","note":"Grüße, 東京"}'.encode()


def test_a_secret_is_44_characters_valid_in_both_base64_alphabets() -> None:
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    for secret in secrets:
        assert re.fullmatch(r"whsec_[A-Za-z0-9]{44}", secret)


@given(st.text(max_size=200))
def test_the_python_library_verifies_our_signatures(text: str) -> None:
    secret, body = new_secret(), json.dumps({"text": text}).encode()
    assert Webhook(secret).verify(body, sign([secret], "evt_1", int(time.time()), body)) == {"text": text}


def test_either_secret_verifies_during_a_rotation() -> None:
    old, new = new_secret(), new_secret()
    headers = sign([new, old], "evt_1", int(time.time()), BODY)
    assert re.fullmatch(r"v1,\S+ v1,\S+", headers["webhook-signature"])
    assert headers["webhook-signature"].startswith(sign([new], "evt_1", int(time.time()), BODY)["webhook-signature"])
    for secret in (old, new):
        Webhook(secret).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(BODY, headers)


def test_a_changed_body_fails_verification() -> None:
    secret = new_secret()
    headers = sign([secret], "evt_1", int(time.time()), BODY)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(BODY + b" ", headers)


def test_the_base_string_joins_id_timestamp_and_body() -> None:
    assert base_string("evt_1", 17, b"{}") == b"evt_1.17.{}"


@pytest.fixture(scope="session")
def javascript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the JavaScript library installed."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("javascript")
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), "standardwebhooks@1"]
    try:
        subprocess.run(install, capture_output=True, text=True, check=True, timeout=60)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        pytest.skip("npm cannot install the JavaScript library")
    return folder


def test_the_javascript_library_verifies_our_signatures(javascript: Path) -> None:
    old, new = new_secret(), new_secret()
    single = sign([old], "evt_1", int(time.time()), BODY)
    rotating = sign([new, old], "evt_1", int(time.time()), BODY)
    program = """
        const { Webhook } = require("standardwebhooks");
        const [body, ...cases] = JSON.parse(require("fs").readFileSync(0));
        for (const [secret, headers] of cases) console.log(new Webhook(secret).verify(body, headers).note);
        try { new Webhook(cases[0][0]).verify(body + " ", cases[0][1]); } catch (error) { console.log(error.name); }
    """
    given = json.dumps([BODY.decode(), [old, single], [old, rotating], [new, rotating]])
    done = subprocess.run(
        ["node", "-e", program], input=given, cwd=javascript, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == ["Grüße, 東京"] * 3 + ["WebhookVerificationError"]


def test_a_sealed_secret_opens_only_with_its_own_table_column_row_and_key() -> None:
    cipher = Cipher(Keys(b"k" * 32))
    encrypted = cipher.encrypt("whsec_x", "webhooks", "secret", 7, 12)
    assert b"whsec" not in encrypted
    assert cipher.decrypt(encrypted, "webhooks", "secret", 7, 12) == "whsec_x"
    contexts = [
        ("apps", "secret", 7, 12),
        ("webhooks", "headers", 7, 12),
        ("webhooks", "secret", 8, 12),
        ("webhooks", "secret", 7, 13),
    ]
    for context in contexts:
        with pytest.raises(Undecryptable):
            cipher.decrypt(encrypted, *context)
    with pytest.raises(Undecryptable):
        Cipher(Keys(b"j" * 32)).decrypt(encrypted, "webhooks", "secret", 7, 12)
    with pytest.raises(Undecryptable):
        cipher.decrypt(encrypted[:-1] + bytes([encrypted[-1] ^ 1]), "webhooks", "secret", 7, 12)
    with pytest.raises(Undecryptable):
        cipher.decrypt(b"", "webhooks", "secret", 7, 12)


def test_encrypting_the_same_text_twice_gives_different_bytes() -> None:
    cipher = Cipher(Keys(b"k" * 32))
    assert cipher.encrypt("x", "t", "c", 1, 1) != cipher.encrypt("x", "t", "c", 1, 1)


@given(st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1))
def test_a_delivery_id_contains_its_subscription_and_sequence(webhook_id: int, sequence: int) -> None:
    assert parse_delivery_id(delivery_id(webhook_id, sequence)) == (webhook_id, sequence)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dlv_",
        "dlv_1",
        "dlv_1_",
        "dlv_0_1",
        "dlv_01_1",
        "dlv_1_1x",
        "DLV_1_1",
        "dlv_1_9223372036854775808",
        "dlv_\u0661_1",
    ],
)
def test_an_invalid_delivery_id_is_refused(text: str) -> None:
    assert parse_delivery_id(text) is None
