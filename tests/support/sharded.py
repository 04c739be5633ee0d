"""A shard beside the directory of a test process, for tests of what requests and workers do with stores in several databases.

Global tables are replicated by PostgreSQL, as in a service. A store is placed in the shard while nothing else uses it, so its rows
are copied without a fence; `stoa shard move` has tests of its own.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from stoa.access.encryption import Cipher, shard_url
from stoa.access.operator import Operator
from stoa.access.stores import Choice
from stoa.app import Application
from stoa.db.connection import Connection, connect
from stoa.db.embedded import EmbeddedPostgres
from stoa.db.pool import Database
from stoa.db.shards import SHARDS, Shards
from stoa.settings import Settings, secret_key
from stoa.store_data.store_erasure import IN_SHARD
from tests.support.data_folders import copy_migrated
from tests.support.databases import PATIENCE_S, sibling
from tests.support.shops import Shop, open_shop

RUN = "TEST_SHARDS"  # if set, the stores of the fixtures are in a shard
NAME = "second"
_SERVICE = "it starts a service with a database of its own, and no store of the fixtures"
_PEOPLE = "accounts, sessions and mails are rows of the directory alone"
_APPS = "a change of an app reaches a store in a shard by a message: tests/shards/test_app_rollout.py, test_global_changes.py"
_SQL = "it reads or writes rows of the directory by SQL, in the database of the stores"
_LATER = "it expects at once what follows in a shard within a second or two: tests/shards/test_global_changes.py"
# What `make test-shards` leaves out of the folders that it runs: folders, files or tests, each with the reason.
APART = {
    "mcp": _SERVICE,
    "imports/test_background.py": _SERVICE,
    "usage/test_shutdown.py": _SERVICE,
    "webhooks/test_listen.py": _SERVICE,
    "webhooks/delivery/test_service.py": _SERVICE,
    "rest/test_shard_routing.py": "it has a directory and a shard of its own",
    "portal/test_announcements.py": _PEOPLE,
    "portal/test_invitation_mails.py": _PEOPLE,
    "portal/test_notifications.py": _PEOPLE,
    "portal/test_outbox.py": _PEOPLE,
    "portal/test_password_reset.py": _PEOPLE,
    "portal/test_results.py": _PEOPLE,
    "portal/test_sign_in.py": _PEOPLE,
    "portal/test_sign_up.py": _PEOPLE,
    "portal/test_two_factor.py": _PEOPLE,
    "portal/test_verified_addresses.py": _PEOPLE,
    "portal/test_app_endpoint.py": _APPS,
    "portal/test_app_file.py": _APPS,
    "portal/test_app_subscriptions.py": _APPS,
    "webhooks/test_app_events.py": _APPS,
    "webhooks/test_app_subscription_changes.py": _APPS,
    "webhooks/test_app_subscriptions.py": _APPS,
    "portal/test_apps.py": _APPS,
    "portal/test_audit.py": _LATER,
    "portal/test_teams.py": _PEOPLE,
    "portal/test_transfers.py": _PEOPLE,
    "portal/test_operators.py": _LATER,
    "portal/test_store_settings.py": _LATER,
    "portal/test_install_requests.py": _LATER,
    "portal/test_metadata.py": _LATER,
    "portal/test_subscriptions.py": _LATER,
    "portal/test_access_control.py::test_pages_of_another_account_look_like_pages_that_do_not_exist": _LATER,
    "portal/test_access_control.py::test_a_member_can_do_what_the_role_allows": _LATER,
    "portal/test_access_control.py::test_a_viewer_sees_no_action_buttons": _LATER,
    "portal/test_deliveries.py::test_deliveries_are_hidden_once_the_app_has_no_access": _LATER,
    "usage/test_recorder.py::test_refused_tokens_and_unknown_routes_are_logged_for_their_app": _SQL,
    "metadata/test_definitions.py::test_a_merchant_defines_replaces_and_removes_a_key": _LATER,
    "metadata/test_definitions.py::test_a_list_of_an_app_is_applied_once": _LATER,
    "webhooks/api/test_feed.py::test_the_waiting_requests_of_an_account_are_limited_over_all_its_apps": _SQL,
    "access/test_admission.py": _SQL,
    "access/test_audit.py": _SQL,
    "access/test_operators.py": _SQL,
    "access/test_throttling.py": "failed attempts are rows of the directory alone",
    "access/test_grants.py::test_tokens_are_recorded_in_the_audit_chain_of_their_store_or_of_the_service": _LATER,
    "access/test_private_keys.py::test_a_host_header_does_not_choose_the_audience": _SQL,
    "access/test_private_keys.py::test_keys_are_added_once_listed_and_removed": _SQL,
    "access/test_token_life.py::test_a_token_of_a_missing_store_or_app_is_refused": _SQL,
    "access/test_token_life.py::test_a_token_that_would_be_refused_is_inactive": _SQL,
    "access/test_token_life.py::test_tokens_are_deleted_a_day_after_they_expire": _SQL,
    "access/test_token_requests.py::test_a_token_costs_two_round_trips_and_one_more_for_a_store": _SQL,
    "access/test_token_resources.py::test_path_resources_start_with_the_public_url": _SQL,
}
REPLICATING = {
    "wal_level": "logical",
    "max_logical_replication_workers": "40",
    "max_worker_processes": "60",
    "max_replication_slots": "200",
    "max_wal_senders": "100",
    "max_active_replication_origins": "200",
    "wal_retrieve_retry_interval": "200ms",
}
_GLOBAL = """
SELECT c.relname FROM pg_class c
 WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
   AND (obj_description(c.oid, 'pg_class') = 'global' OR c.relname = 'tokens') ORDER BY 1"""
_LAST_IDS = (
    "SELECT sequencename::text, last_value FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL"
)
_RAISE_ID = """SELECT setval(quote_ident(sequencename)::regclass, $2) FROM pg_sequences
    WHERE schemaname = 'public' AND sequencename = $1 AND coalesce(last_value, 0) < $2"""
_COLUMNS = """
SELECT column_name::text FROM information_schema.columns
 WHERE table_name = $1 AND table_schema = 'public' AND is_generated = 'NEVER' ORDER BY ordinal_position"""
# Nothing but replication may write a global table in a shard: this trigger does not fire for it.
_GUARD = """
CREATE FUNCTION refuse_global_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a shard wrote the global table %', TG_TABLE_NAME;
END $$"""


def as_superuser(url: str) -> str:
    """The same database for the superuser, because other roles may not subscribe in every version."""
    return url.replace("//stoa@", "//postgres@")


def let_replicate(folder: Path) -> None:
    """Set up an embedded server, before it starts, so that its databases can replicate."""
    with (folder / "data/postgresql.auto.conf").open("a") as settings:
        settings.writelines(f"{name} = '{value}'\n" for name, value in REPLICATING.items())


class Sharded(msgspec.Struct):
    """An application with a directory and one shard."""

    application: Application
    directory: Database
    shard: Database

    async def open_shop(self) -> Shop:
        """A new store in the shard."""
        return await open_shop(self.application, self.shard)


@asynccontextmanager
async def sharded(folder: Path, settings: Settings) -> AsyncGenerator[Sharded]:
    """A server with a directory and a shard, and an application that knows both."""
    copy_migrated(folder)
    let_replicate(folder)
    server = EmbeddedPostgres(folder, durable=False)
    template = server.start()
    try:
        admin = await connect(sibling(template, "postgres"), statement_timeout_ms=0)
        await admin.execute('CREATE DATABASE first TEMPLATE "stoa"')
        await admin.close()
        directory_url = sibling(template, "first")
        shard_url = await add_shard(directory_url, settings, "stoa")
        here = msgspec.structs.replace(settings, database_url=directory_url)
        application = Application(here)
        await application.shards.look()
        directory, shard = Database(directory_url), Database(shard_url)
        try:
            yield Sharded(application, directory, shard)
        finally:
            await application.close()
            await directory.close()
            await shard.close()
            await drop_shard(directory_url)
    finally:
        server.stop()


async def add_shard(directory_url: str, settings: Settings, template: str) -> str:
    """Make a second database the shard NAME of the first; returns its URL."""
    database = directory_url.partition("?")[0].rsplit("/", 1)[1]
    url, slot = sibling(directory_url, f"{database}_{NAME}"), f"{database}_{NAME}"
    admin = await connect(directory_url, statement_timeout_ms=0)
    await admin.execute(f'CREATE DATABASE "{database}_{NAME}" TEMPLATE "{template}"')
    await admin.close()
    directory = await connect(as_superuser(directory_url), statement_timeout_ms=0)
    shard = await connect(as_superuser(url), statement_timeout_ms=0)
    try:
        await _replicate(directory, shard, as_superuser(directory_url), slot)
        await shard.execute(f"INSERT INTO service_facts (name, value) VALUES ('shard', '{NAME}')")
        [[number]] = await directory.fetch("SELECT nextval('shard_ids')")
        sealed = Cipher(secret_key(settings)).encrypt(url, "shards", "url", 0, number)
        await directory.fetch("INSERT INTO shards (id, name, url) VALUES ($1, $2, $3)", number, NAME, sealed)
        await _until(shard, "SELECT EXISTS (SELECT FROM shards)")
    finally:
        await directory.close()
        await shard.close()
    return url


async def _replicate(directory: Connection, shard: Connection, url: str, slot: str) -> None:
    tables = [row[0] for row in await directory.fetch(_GLOBAL)]
    await directory.execute(f"CREATE PUBLICATION stoa_global FOR TABLE {', '.join(tables)}")
    await directory.fetch("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", slot)
    await shard.execute(_GUARD)
    for table in tables:
        await shard.execute(
            f"""CREATE TRIGGER refuse_global_write BEFORE INSERT OR UPDATE OR DELETE ON {table}
                    EXECUTE FUNCTION refuse_global_write()"""
        )
    await shard.execute(
        f"""CREATE SUBSCRIPTION "{slot}" CONNECTION '{url}' PUBLICATION stoa_global
                WITH (create_slot = false, slot_name = '{slot}')"""
    )
    await _until(shard, "SELECT NOT EXISTS (SELECT FROM pg_subscription_rel WHERE srsubstate <> 'r')")


async def drop_shard(directory_url: str) -> None:
    """End the replication, which would keep the log of the server."""
    database = directory_url.partition("?")[0].rsplit("/", 1)[1]
    shard = await connect(as_superuser(sibling(directory_url, f"{database}_{NAME}")), statement_timeout_ms=0)
    with suppress(Exception):
        await shard.execute(f'DROP SUBSCRIPTION "{database}_{NAME}"')
    await shard.close()


async def place(store_id: int, directory: Database, shard: Database) -> None:
    """Move a store that nobody uses to the shard."""
    await caught_up(directory, shard)
    async with directory.transaction() as source, shard.transaction() as target:
        await target.execute("SET CONSTRAINTS ALL DEFERRED")
        for step in reversed(IN_SHARD):
            names = ", ".join([row[0] for row in await source.fetch(_COLUMNS, step.table)])
            [[rows]] = await source.fetch(
                f"SELECT json_agg(t)::text FROM {step.table} t WHERE t.store_id = $1", store_id
            )
            await target.fetch(
                f"""INSERT INTO {step.table} ({names})
                    SELECT {names} FROM json_populate_recordset(NULL::{step.table}, $1::text::json)""",
                rows or "[]",
            )
        for step in IN_SHARD:
            await step.delete.run(source, store_id, 1_000_000)
        for name, last in await source.fetch(_LAST_IDS):
            await target.fetch(_RAISE_ID, name, last)
        await source.fetch("UPDATE stores SET shard = $2 WHERE id = $1", store_id, NAME)
    await directory.fetch("SELECT nextval('store_closings')")  # as a move does
    await arrived(shard, "SELECT store_is_here($1)", store_id)


async def caught_up(directory: Database, shard: Database) -> None:
    """Wait until everything that was committed in the directory has arrived in the shard."""
    [[beat]] = await directory.fetch(
        """INSERT INTO directory_beats (beat) VALUES (1)
               ON CONFLICT (id) DO UPDATE SET beat = directory_beats.beat + 1, beaten_at = now() RETURNING beat"""
    )
    await arrived(shard, "SELECT coalesce((SELECT beat FROM directory_beats), 0) >= $1", beat)


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():
            await asyncio.sleep(0.005)


async def arrived(shard: Database, sql: str, *args: object) -> None:
    """Wait until a condition on replicated rows is true."""
    async with asyncio.timeout(PATIENCE_S):
        while not (await shard.fetch(sql, *args))[0][0]:
            await asyncio.sleep(0.005)


async def _until(db: Connection, sql: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not (await db.fetch(sql))[0][0]:
            await asyncio.sleep(0.02)


def is_on() -> bool:
    return RUN in os.environ


def why_apart(name: str) -> str | None:
    """Why a test, named by its path below `tests`, cannot run with its store in a shard; None if it can."""
    return next(
        (reason for path, reason in APART.items() if name == path or name.startswith((f"{path}/", f"{path}::"))), None
    )


async def choose(by: Operator, named: str | None = None) -> Choice:
    """The shard of this run, if the service has it."""
    names = [each.name for each in await SHARDS.all(by.db)]
    return Choice(NAME if NAME in names and by.shards is not None else "", "the tests decide")


def shards_of(settings: Settings) -> Shards:
    """The directory of this run and its shard, for operators of tests."""
    return Shards(Database(settings.database_url), partial(shard_url, Cipher(secret_key(settings))))


def url_of_stores(directory_url: str) -> str:
    """The database of the stores of this run, of which a test knows the settings of the service."""
    database = directory_url.partition("?")[0].rsplit("/", 1)[1]
    return sibling(directory_url, f"{database}_{NAME}") if is_on() else directory_url
