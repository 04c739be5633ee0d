"""The secret key is replaced while everything that was stored with the former one goes on working."""

import itertools
import os
import secrets
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pyotp
import pytest

from stoa.access import audit
from stoa.access.apps import create_app
from stoa.access.authentication import Credentials, authenticate
from stoa.access.contract import SCOPES
from stoa.access.encryption import Cipher, Undecryptable
from stoa.access.grants import install, issue_token, revoke_token
from stoa.access.key_rotation import adopt_keys, with_known_keys
from stoa.access.stores import create_store
from stoa.accounts.registration import create_account, create_reset_link, find_link
from stoa.accounts.sessions import find_session, sign_in
from stoa.accounts.two_factor import complete_sign_in, new_secret, turn_on
from stoa.app import Application
from stoa.db.pool import Database
from stoa.db.service_facts import known_key, replace_key
from stoa.mail.message import new_nonce, one_time_token
from stoa.operations import reencryption
from stoa.operations.doctor import examine
from stoa.operations.finding import Finding
from stoa.operations.maintenance import maintain
from stoa.portal.kit.csrf import form_token, is_form_token
from stoa.portal.kit.notices import Notice, pack_notice, unpack_notice
from stoa.secret_keys import Keys, key_fingerprint
from stoa.settings import Settings, WrongSetting, load, secret_key
from stoa.webhooks.app_callbacks import install_signature, set_callbacks
from tests.support.service import migrated_database
from tests.support.shops import operator_of, service_client

PASSWORD = "a long enough passphrase of a person"
_numbers = itertools.count(1)
database_urls: dict[Database, str] = {}


@pytest.fixture
async def db(worker_id: str) -> AsyncIterator[Database]:
    url = await migrated_database(f"rotation_{worker_id}_{os.getpid()}_{next(_numbers)}")
    database = Database(url, size=4)
    database_urls[database] = url
    yield database
    await database.close()


def settings_of(db: Database, *keys: str) -> Settings:
    given = {"database_url": database_urls[db], "secret_key": ",".join(keys), "metrics": "off", "log_level": "error"}
    return load({}, **given)


async def doctor(db: Database, settings: Settings) -> Finding:
    return {each.check: each for each in await examine(settings.database_url, settings)}["key"]


class Everything(msgspec.Struct):
    """One of each credential, stored with the former key."""

    client_id: str
    client_secret: str
    token: str
    webhook_secret: str
    session: str
    totp: str
    codes: list[str]
    link: str
    install_signature: str


async def store_everything(db: Database, settings: Settings) -> Everything:
    by = operator_of(db, settings)
    await create_store(by, "kept", "A store", "USD")
    app = await create_app(by, "An app", list(SCOPES))
    await install(by, app.client_id, "kept")
    token = (await issue_token(by, app.client_id, "kept")).access_token
    public = msgspec.structs.replace(settings, webhook_allow="localhost")
    await set_callbacks(operator_of(db, public), app.client_id, endpoint_url="http://localhost/app", return_urls=[])
    signature = await install_signature(by, app.app_id, b"content")
    account = await create_account(by, "maria@example.com", "Maria", PASSWORD)
    totp = new_secret()
    codes = await turn_on(by, account.id, totp, pyotp.TOTP(totp).now())
    session = (await sign_in(by, db, "maria@example.com", PASSWORD, peer="127.0.0.1", agent="")).token
    link = (await create_reset_link(by, "maria@example.com")).address.rpartition("/")[2]
    async with calling(settings, token) as client:
        body = {"url": "https://hooks.example.com/", "events": ["product.*"], "headers": {"X-Key": "hidden"}}
        created = await client.post("/stores/kept/api/v3/app/webhooks", json=body)
        assert created.status_code == 201, created.text
        secret = created.json()["data"]["secret"]
    return Everything(app.client_id, app.client_secret, token, secret, session, totp, codes, link, signature)


class calling:  # noqa: N801 - used as a function
    """The application with these settings, and a client with a token."""

    def __init__(self, settings: Settings, token: str) -> None:
        self._application = Application(settings)
        self._client = service_client(self._application)
        self._client.headers["authorization"] = f"Bearer {token}"

    async def __aenter__(self) -> Any:
        return self._client

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()
        await self._application.close()


async def check_everything(db: Database, settings: Settings, stored: Everything) -> None:
    by, keys = operator_of(db, settings), secret_key(settings)
    given = Credentials(stored.client_id, stored.client_secret)
    await authenticate(db, keys, given, peer="127.0.0.1", request_id="req")
    async with calling(settings, stored.token) as client:
        assert (await client.get("/stores/kept/api/v3/app/products")).status_code == 200
    cipher = Cipher(keys)
    rows = await db.fetch("SELECT store_id, id, sealed_secret, sealed_headers FROM webhooks WHERE NOT of_app")
    for store_id, row_id, secret, headers in rows:
        assert cipher.decrypt(secret, "webhooks", "secret", store_id, row_id) == stored.webhook_secret
        assert "hidden" in cipher.decrypt(headers, "webhooks", "headers", store_id, row_id)
    [[app_id, of_app]] = await db.fetch("SELECT app_id, sealed_secret FROM webhooks WHERE of_app")
    assert cipher.decrypt(of_app, "app_callbacks", "secret", 0, app_id)
    assert await install_signature(by, app_id, b"content") == stored.install_signature
    assert await find_session(db, keys, stored.session) is not None
    assert await find_link(by, "reset", stored.link) is not None


async def reencrypted(db: Database, settings: Settings) -> None:
    for _ in range(50):
        await maintain(db, settings)
        if (await reencryption.progress(db, secret_key(settings).current)).finished:
            return
    pytest.fail("the secrets were not encrypted again")


async def test_everything_works_during_and_after_a_rotation(db: Database) -> None:
    old, new = secrets.token_hex(32), secrets.token_hex(32)
    first = settings_of(db, old)
    await adopt_keys(db, first)
    stored = await store_everything(db, first)
    assert (await doctor(db, first)).status == "ok"

    # Every machine learns the new key first.
    learning = await adopt_keys(db, settings_of(db, old, new))
    await check_everything(db, learning, stored)
    finding = await doctor(db, settings_of(db, old, new))
    assert (finding.status, "put the new one first" in finding.action) == ("warning", True)

    both = await adopt_keys(db, settings_of(db, new, old))
    assert await known_key(db) == key_fingerprint(bytes.fromhex(new))
    await check_everything(db, both, stored)
    finding = await doctor(db, settings_of(db, new, old))
    assert (finding.status, "being encrypted again" in finding.detail) == ("warning", True)

    await reencrypted(db, both)
    finding = await doctor(db, settings_of(db, new, old))
    assert (finding.status, "can go" in finding.detail) == ("ok", True)
    assert key_fingerprint(bytes.fromhex(old))[:8] in finding.action

    after = await adopt_keys(db, settings_of(db, new))
    await check_everything(db, after, stored)
    assert (await doctor(db, settings_of(db, new))).status == "ok"
    by = operator_of(db, after)
    session = await find_session(db, by.key, stored.session)
    assert session is not None
    done = await complete_sign_in(by, session, stored.session, stored.codes[0], peer="127.0.0.1", agent="")
    assert done.complete
    await revoke_token(by, stored.token)
    async with calling(after, stored.token) as client:
        assert (await client.get("/stores/kept/api/v3/app/products")).status_code == 401


async def test_nothing_can_be_decrypted_with_the_former_key_afterwards(db: Database) -> None:
    old, new = secrets.token_hex(32), secrets.token_hex(32)
    first = await adopt_keys(db, settings_of(db, old))
    await store_everything(db, first)
    await reencrypted(db, await adopt_keys(db, settings_of(db, new, old)))
    former = Cipher(Keys(bytes.fromhex(old)))
    for column in reencryption.COLUMNS:
        for row in await column.read.all(db, 0, 0, 100):
            with pytest.raises(Undecryptable):
                former.decrypt(row.value, row.table, row.column, row.bound_store, row.bound_id)


async def test_every_encrypted_column_is_encrypted_again(db: Database) -> None:
    """A column of encrypted values that `COLUMNS` does not name stays readable, but its former key never goes."""
    names = {
        f"{table}.{column}"
        for table, column in await db.fetch(
            """SELECT table_name, column_name FROM information_schema.columns
                  NATURAL JOIN information_schema.tables
                WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND data_type = 'bytea'
                  AND (column_name LIKE 'sealed%' OR column_name IN ('totp_secret', 'url'))"""
        )
    }
    written = {each.write.sql.split()[1] + "." + each.write.sql.split()[3] for each in reencryption.COLUMNS}
    assert names == written


async def test_a_second_rotation_keeps_the_credentials_of_both_former_keys(db: Database) -> None:
    keys = [secrets.token_hex(32) for _ in range(3)]
    stored = await store_everything(db, await adopt_keys(db, settings_of(db, keys[0])))
    for number in (1, 2):
        await reencrypted(db, await adopt_keys(db, settings_of(db, keys[number], keys[number - 1])))
    last = await adopt_keys(db, settings_of(db, keys[2]))
    assert len(secret_key(last).retired) == 2
    await check_everything(db, last, stored)


async def test_a_key_that_was_rotated_out_does_not_come_back(db: Database) -> None:
    old, new = secrets.token_hex(32), secrets.token_hex(32)
    await adopt_keys(db, settings_of(db, old))
    await adopt_keys(db, settings_of(db, new, old))
    late = await adopt_keys(db, settings_of(db, old, new))  # a machine whose setting is not changed yet
    assert secret_key(late).current == bytes.fromhex(new)
    assert await known_key(db) == key_fingerprint(bytes.fromhex(new))
    with pytest.raises(WrongSetting, match="is not the key of this database"):
        await adopt_keys(db, settings_of(db, old))
    actions = [entry.action for entry in await audit.newest(db, audit.SERVICE, 10)]
    assert actions.count("key.rotated") == 1


async def test_an_interrupted_pass_resumes_and_a_changed_value_is_left_alone(db: Database) -> None:
    old, new = secrets.token_hex(32), secrets.token_hex(32)
    await store_everything(db, await adopt_keys(db, settings_of(db, old)))
    both = secret_key(await adopt_keys(db, settings_of(db, new, old)))
    for _ in range(30):  # one value in each transaction, as if each were killed after it
        async with db.transaction() as transaction:
            await reencryption.reencrypt(transaction, both, most=1)
    assert (await reencryption.progress(db, both.current)).finished
    [row, *_] = await reencryption.COLUMNS[0].read.all(db, 0, 0, 1)
    assert await reencryption.COLUMNS[0].write.run(db, row.store_id, row.id, b"another value", b"overwritten") == 0


async def test_forms_notices_and_mail_links_outlive_the_rotation() -> None:
    old, new = secrets.token_bytes(32), secrets.token_bytes(32)
    before, during, after = Keys(old), Keys(new, (old,)), Keys(new, (), (old,))
    token, notice = form_token(before, "session"), pack_notice(before, "session", Notice("Saved."))
    nonce = new_nonce(before)
    for keys in (during, after):
        assert is_form_token(keys, "session", token)
        assert unpack_notice(keys, "session", notice) == Notice("Saved.")
        assert one_time_token(keys, nonce) == one_time_token(before, nonce)
    assert not is_form_token(Keys(new), "session", token)
    assert one_time_token(before, new_nonce(during)) != one_time_token(during, new_nonce(during))


async def test_the_first_credential_records_the_key(db: Database) -> None:
    """Before any service was started: a command with another key would create credentials that the service refuses."""
    key, other = secrets.token_hex(32), secrets.token_hex(32)
    await create_app(operator_of(db, settings_of(db, key)), "First", list(SCOPES))
    assert await known_key(db) == key_fingerprint(bytes.fromhex(key))
    with pytest.raises(WrongSetting, match="is not the key of this database"):
        await create_app(operator_of(db, settings_of(db, other)), "Second", list(SCOPES))
    assert [tuple(row) for row in await db.fetch("SELECT name FROM apps")] == [("First",)]


async def test_a_weak_key_is_replaced_without_a_loss(db: Database) -> None:
    weak, strong = "00" * 32, secrets.token_hex(32)
    former = msgspec.structs.replace(settings_of(db, strong), secret_key=f"{weak};")  # as a release before this check
    await replace_key(db, secret_key(former))
    stored = await store_everything(db, former)
    both = settings_of(db, strong, weak)
    await check_everything(db, await with_known_keys(db, both), stored)
    await check_everything(db, await adopt_keys(db, both), stored)
