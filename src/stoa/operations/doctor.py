"""`stoa doctor`: examines a service from outside and says what to do about each problem."""

import asyncio
import shutil
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from stoa.access.key_rotation import is_retired
from stoa.background import duties_of
from stoa.db import migrate, service_facts
from stoa.db.connection import path_to_server
from stoa.db.errors import PostgresError, Unavailable
from stoa.db.pool import Database
from stoa.db.query import Query
from stoa.mail.smtp import Connection, refusal_of
from stoa.mail_settings import read_mail_server, read_sender
from stoa.media.storage import folder_of, open_storage
from stoa.operations import measuring
from stoa.operations.connection_budget import (
    LIMITS,
    lost_behind_a_pooler,
    replica_budget,
    replica_problem,
    service_budget,
)
from stoa.operations.finding import Finding, Status
from stoa.operations.receiver_checks import check_receivers
from stoa.operations.reencryption import progress
from stoa.operations.shard_checks import check_shards, progress_in_shards
from stoa.secret_keys import Keys, key_fingerprint
from stoa.settings import Settings, WrongSetting, existing_key, unknown
from stoa.shards.registry import END_RESTORE, RESTORE_LEFT
from stoa.webhooks.http.address_guard import check_setting

_SERVICE = "the doctor examines the whole service"
_MAX_OFFSET_S = 1.0
_LOW_DISK, _FULL_DISK = 0.15, 0.05
_OLD_BACKUP = timedelta(hours=26)  # a daily backup may be two hours late
_CONNECT_S = 3.0
# With one of these off, a crash of the server loses or damages committed data, or tables grow without end.
_NEEDED_SETTINGS = ("autovacuum", "fsync", "full_page_writes", "synchronous_commit")


class Server(msgspec.Struct):
    version: int
    encoding: str
    read_only: bool
    settings: list[str]


SERVER = Query(
    Server,
    """SELECT current_setting('server_version_num')::integer AS version, current_setting('server_encoding') AS encoding,
              pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS read_only,
              (SELECT array_agg(s.name || '=' || s.setting ORDER BY s.name) FROM pg_settings s
                WHERE s.name = ANY ($1::text[])) AS settings""",
    unbound=_SERVICE,
)

_DATABASE = "database"


async def examine(url: str, settings: Settings) -> list[Finding]:
    """Run every check; checks that need the database are left out if it cannot be reached."""
    found = [
        _check_settings(settings),
        _check_disk(settings),
        await _check_media(settings),
        *await _check_mail(settings),
    ]
    db = Database(url, size=1)
    try:
        found += await _check_server(db, settings)
        if all(each.status != "problem" for each in found if each.check == _DATABASE):
            found.append(await _check_key(db, settings))
            found += await _check_restore(db)
            found.append(await _check_connections(db, url, settings))
            if settings.database_read_url:
                found.append(await _check_replica(db, settings))
            found += await _check_schema(db, settings)
    finally:
        await db.close()
    return found


def summary(found: Sequence[Finding]) -> str:
    counts = {status: sum(each.status == status for each in found) for status in ("problem", "warning", "ok")}
    return f"{counts['problem']} problems, {counts['warning']} warnings, {counts['ok']} checks passed."


def unreachable(found: Sequence[Finding]) -> bool:
    return any(each.check == _DATABASE and each.status == "problem" for each in found)


# --- this machine -----------------------------------------------------------------------------------------------------


def _check_settings(settings: Settings) -> Finding:
    if wrong := unknown():
        return Finding("settings", "warning", "; ".join(wrong), "Remove or rename the variable.")
    try:
        check_setting(settings)
    except WrongSetting as error:
        return Finding("settings", "problem", str(error), "The service does not start with it: change the variable.")
    if settings.database_url and not settings.secret_key:
        return Finding(
            "settings",
            "warning",
            "the database is external, but the key is in the data folder",
            "Set STOA_SECRET_KEY, so that every machine has the same key.",
        )
    if not settings.data_dir.is_absolute():
        return Finding(
            "settings",
            "warning",
            f"STOA_DATA_DIR={settings.data_dir} depends on the folder in which a command is started",
            "Set STOA_DATA_DIR to an absolute path.",
        )
    return Finding("settings", "ok", "every variable is a setting")


def _check_disk(settings: Settings) -> Finding:
    folder = settings.data_dir.resolve()
    while not folder.exists():
        folder = folder.parent
    usage = shutil.disk_usage(folder)
    share = usage.free / usage.total
    detail = f"{usage.free / 1e9:.1f} GB of {usage.total / 1e9:.1f} GB are free on the disk of {settings.data_dir}"
    if share < _LOW_DISK:
        status: Status = "problem" if share < _FULL_DISK else "warning"
        return Finding("disk", status, detail, "Free space or enlarge the disk: without space, every write fails.")
    return Finding("disk", "ok", detail)


async def _check_media(settings: Settings) -> Finding:
    """Whether pictures can be stored; several machines need one storage."""
    folder, storage = folder_of(settings), open_storage(settings)
    try:
        await storage.check()
    except OSError as error:
        action = "Check STOA_MEDIA_URL, the rights of the folder, or the keys of the bucket: pictures cannot be stored."
        return Finding("pictures", "problem", str(error), action)
    finally:
        await storage.close()
    if settings.database_url and not settings.media_url:
        return Finding(
            "pictures",
            "warning",
            "the database is external, but pictures are in the data folder",
            "Set STOA_MEDIA_URL to a bucket or a shared folder, so that every machine has the same pictures.",
        )
    return Finding("pictures", "ok", f"they are stored in {folder}" if folder else "they are stored in a bucket")


async def _check_mail(settings: Settings) -> list[Finding]:
    """Connect to the mail server and sign in, without sending anything."""
    if not settings.smtp_url:
        return []
    server = read_mail_server(settings.smtp_url)
    connection = Connection(server, read_sender(settings.mail_from).domain, _CONNECT_S)
    try:
        await asyncio.to_thread(connection.open)
    except Exception as error:  # noqa: BLE001 - each failure is a finding
        action = "Check STOA_SMTP_URL and the mail server; mails wait in the outbox meanwhile."
        return [Finding("email", "problem", f"{server.host}:{server.port}: {refusal_of(error).message}", action)]
    finally:
        await asyncio.to_thread(connection.close)
    return [Finding("email", "ok", f"{server.host}:{server.port} accepts connections")]


# --- the database -----------------------------------------------------------------------------------------------------


async def _check_server(db: Database, settings: Settings) -> list[Finding]:
    try:
        server = await SERVER.one(db, list(_NEEDED_SETTINGS))
    except (PostgresError, Unavailable) as error:
        action = "Check that it runs and that STOA_DATABASE_URL is correct."
        return [Finding(_DATABASE, "problem", str(error), action)]
    found = [Finding(_DATABASE, "ok", "it can be reached"), _check_version(server), _check_server_settings(server)]
    if server.read_only:
        action = "Point STOA_DATABASE_URL at the primary, for example with target_session_attrs=read-write."
        found.append(Finding("writes", "problem", "the database is a standby or read-only", action))
        return found
    try:
        await service_facts.WRITE.run(db)
    except (PostgresError, Unavailable) as error:
        action = "Check the disk of the database and the privileges of the role; `stoa migrate` creates missing tables."
        found.append(Finding("writes", "problem", f"a write failed: {error}", action))
    else:
        found.append(Finding("writes", "ok", "the database accepts writes"))
    return found


def _check_version(server: Server) -> Finding:
    major = server.version // 10_000
    if major < migrate.OLDEST_POSTGRES:
        return Finding(
            "version", "problem", f"PostgreSQL {major}", f"Upgrade to PostgreSQL {migrate.OLDEST_POSTGRES} or newer."
        )
    return Finding("version", "ok", f"PostgreSQL {major}")


def _check_server_settings(server: Server) -> Finding:
    unsafe = [text for text in server.settings if text.endswith("=off")]
    if server.encoding != "UTF8":
        return Finding(
            "server settings", "problem", f"the encoding is {server.encoding}", "Create the database as UTF8."
        )
    if unsafe:
        action = "Set it to on: a crash of the server can lose committed data, or tables grow without end."
        return Finding("server settings", "problem", ", ".join(unsafe), action)
    return Finding("server settings", "ok", ", ".join(server.settings))


async def _check_key(db: Database, settings: Settings) -> Finding:
    keys, known = existing_key(settings), await service_facts.known_key(db)
    if keys is None:
        status: Status = "ok" if known is None else "problem"
        return Finding("key", status, "there is no key here", "Set STOA_SECRET_KEY to the key of the service.")
    given = [key_fingerprint(key)[:8] for key in keys.configured]
    if known is None:
        return Finding("key", "ok", f"the first credential records its fingerprint {given[0]}")
    if known[:8] not in given:
        return Finding(
            "key",
            "problem",
            f"its fingerprint is {', '.join(given)}, but the database expects {known[:8]}",
            "Set the key with which the first credential was created; if it is lost, run `stoa accept-key`.",
        )
    if keys.others:
        return await _check_rotation(db, settings, keys, known)
    return Finding("key", "ok", f"its fingerprint is {given[0]}")


async def _check_restore(db: Database) -> list[Finding]:
    if await service_facts.restore_has_ended(db):
        return []
    return [Finding("restore", "problem", RESTORE_LEFT, f"Run {END_RESTORE}: no service starts before.")]


async def _check_rotation(db: Database, settings: Settings, keys: Keys, known: str) -> Finding:
    """Several keys are set: say which step of the rotation is next."""
    [current] = [key for key in keys.configured if key_fingerprint(key) == known]
    others = [key for key in keys.configured if key != current]
    new = [key_fingerprint(key)[:8] for key in others if not await is_retired(db, key)]
    if new:
        action = "When every machine has both keys, put the new one first in STOA_SECRET_KEY and restart each service."
        detail = f"{known[:8]} is the current key; {', '.join(new)} is set, but the service has not switched to it"
        return Finding("key", "warning", detail, action)
    old, done = ", ".join(key_fingerprint(key)[:8] for key in others), await progress(db, current)
    in_shards = await progress_in_shards(db, settings, current)
    if away := [name for name, each in in_shards.items() if each is None]:
        detail = f"{known[:8]} is the current key; {', '.join(away)} may have secrets of {old}, and does not answer"
        return Finding("key", "warning", detail, "Keep both keys until it answers, and run `stoa doctor` again.")
    passes = [done, *(each for each in in_shards.values() if each is not None)]
    if not all(each.finished for each in passes):
        detail = f"{known[:8]} is the current key; stored secrets of {old} are being encrypted again"
        return Finding(
            "key", "warning", detail, "Keep both keys, and run `stoa doctor` again; a running service does it."
        )
    if unreadable := sum(each.unreadable for each in passes):
        detail = f"{known[:8]} is the current key; {unreadable} stored secrets can be read with none of the keys"
        return Finding(
            "key", "warning", detail, "If you have the key with which they were stored, add it to STOA_SECRET_KEY."
        )
    detail = f"{known[:8]} is the current key; nothing is encrypted with {old} any more, so it can go"
    return Finding(
        "key", "ok", detail, f"Remove {old} from STOA_SECRET_KEY on every machine, and restart each service."
    )


async def _check_connections(db: Database, url: str, settings: Settings) -> Finding:
    if (await path_to_server(url)).pooled:
        try:
            lost = await lost_behind_a_pooler(db, url, settings)
        except (WrongSetting, Unavailable) as error:
            return Finding("connections", "problem", str(error), "Set STOA_DATABASE_DIRECT_URL to the server itself.")
        action = "Follow each sentence; docs/operations/running.md has the settings of PgBouncer."
        detail = "; ".join(lost) or "through a connection pooler, which limits their number"
        return Finding("connections", "warning" if lost else "ok", detail, action if lost else "")
    limits, budget = await LIMITS.one(db), service_budget(settings)
    detail = f"a service with these settings opens up to {budget}; {limits.used} are in use, {limits.available} allowed"
    if budget.total > limits.available:
        action = f"Lower STOA_WORKERS or STOA_DATABASE_POOL, or raise the limit: {limits.source}."
        return Finding("connections", "problem", detail, action)
    if limits.used > 0.8 * limits.available:
        action = f"Use fewer workers or smaller pools, or raise the limit: {limits.source}."
        return Finding("connections", "warning", detail, action)
    return Finding("connections", "ok", detail)


async def _check_replica(db: Database, settings: Settings) -> Finding:
    if problem := await replica_problem(db, settings):
        action = "Check that STOA_DATABASE_READ_URL names a standby of this database and that it runs."
        return Finding("replica", "warning", problem, action)
    return Finding("replica", "ok", f"it serves reads; this service opens up to {replica_budget(settings)} to it")


async def _check_schema(db: Database, settings: Settings) -> list[Finding]:
    version, changed = await migrate.version(db), 0
    if version == migrate.LATEST:
        changed = await migrate.outdated_functions(db)
    if version > migrate.LATEST:
        detail = f"the schema is {version}, newer than this release ({migrate.LATEST})"
        return [Finding("migrations", "warning", detail, "Install the release that the service runs.")]
    if version < migrate.LATEST or changed:
        detail = f"the schema is {version} of {migrate.LATEST}, and {changed} functions are outdated"
        return [Finding("migrations", "problem", detail, "Run `stoa migrate`.")]
    found = [Finding("migrations", "ok", f"the schema is {version}")]
    queues = await measuring.read_queues(db)
    found += await check_shards(db, settings)
    return [*found, *_check_queues(queues, settings), *await check_receivers(db, settings)]


# --- workers and queues -----------------------------------------------------------------------------------------------


def _check_queues(queues: measuring.Queues, settings: Settings) -> list[Finding]:
    return [_check_clock(queues), _check_workers(queues, settings), _check_backlog(queues), _check_imports(queues),
            _check_backup(queues)]  # fmt: skip


def _check_clock(queues: measuring.Queues) -> Finding:
    detail = f"this machine's clock is {queues.clock_offset:+.1f} s from the database's"
    if abs(queues.clock_offset) > _MAX_OFFSET_S:
        status: Status = "problem" if abs(queues.clock_offset) > measuring.MAX_CLOCK_OFFSET_S else "warning"
        action = "Synchronize both clocks with NTP: signatures of webhooks carry this machine's time."
        return Finding("clock", status, detail, action)
    return Finding("clock", "ok", detail)


def _check_workers(queues: measuring.Queues, settings: Settings) -> Finding:
    if not queues.backlog.workers:
        action = "Start `stoa serve` without --no-background, or `stoa worker`."
        return Finding("delivery workers", "problem", "none is connected to the database", action)
    duties = ", ".join(duty.name for duty in duties_of(settings))
    return Finding(
        "delivery workers", "ok", f"{queues.backlog.workers} connected to the database; their duties: {duties}"
    )


def _check_backlog(queues: measuring.Queues) -> Finding:
    backlog = queues.backlog
    waited = max(backlog.oldest_unrouted_seconds, backlog.late_seconds)
    detail = f"{backlog.unrouted} events to route and {backlog.pending} deliveries to send; the most overdue one has waited {waited:.0f} s"
    if waited > measuring.LATE_S:
        action = "Check the log of the delivery workers; add one with `stoa worker --only deliveries`."
        return Finding("deliveries", "problem", detail, action)
    if backlog.open_breakers:
        more = f"{detail}; {backlog.open_breakers} receivers fail"
        return Finding(
            "deliveries", "warning", more, "Tell the owners of the failing receivers; see the portal's Health page."
        )
    return Finding("deliveries", "ok", detail)


def _check_imports(queues: measuring.Queues) -> Finding:
    imports = queues.imports
    detail = f"{imports.running} imports run and {imports.waiting} wait, the oldest for {queues.oldest_import_s:.0f} s"
    if queues.oldest_import_s > measuring.LATE_IMPORT_S:
        action = "Check that an import worker runs: `stoa serve` without --no-background, or `stoa worker`."
        return Finding("imports", "problem", detail, action)
    return Finding("imports", "ok", detail)


def _check_backup(queues: measuring.Queues) -> Finding:
    action = "Run `stoa backup` every day, unless you back the database up in another way."
    if queues.backup_at is None:
        return Finding("backup", "warning", "no `stoa backup` was ever taken", action)
    age = queues.now - queues.backup_at
    detail = f"the last one was taken {age.total_seconds() / 3600:.1f} hours ago"
    return Finding("backup", "warning", detail, action) if age > _OLD_BACKUP else Finding("backup", "ok", detail)
