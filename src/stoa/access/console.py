"""Command-line support: access to the database, and output as tables for people or JSON for programs."""

import asyncio
import getpass
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import datetime
from functools import partial
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import click
import msgspec

from stoa.access.contract import AccessRefused
from stoa.access.encryption import Cipher, shard_url
from stoa.access.key_rotation import with_known_keys
from stoa.access.operator import Operator
from stoa.db import migrate
from stoa.db.embedded import DataFolderInUse, EmbeddedPostgres
from stoa.db.errors import Unavailable
from stoa.db.fan_out import Everywhere
from stoa.db.pool import Database
from stoa.db.service_facts import check_key
from stoa.db.shards import Shards
from stoa.ids import new_id
from stoa.settings import Settings, secret_key

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")
_STATEMENT_MS = 30_000
FAILED, WRONG_USAGE, UNREACHABLE, IN_PART, INTERRUPTED = 1, 2, 3, 4, 130  # exit codes; 0 is success


class Refused(click.ClickException):
    """The command failed: one line on stderr, and an exit code for the kind of reason."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # pyright: ignore[reportAttributeAccessIssue] - click declares it for the class only

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {self.message}", file=file, err=file is None)


class Console(msgspec.Struct, frozen=True):
    """The settings, and a database connection that lasts as long as the command."""

    settings: Settings
    database: Callable[[], AbstractAsyncContextManager[Database]]

    def run(self, work: Callable[[Operator], Awaitable[T]], *, at: str | None = None) -> T:
        """Run one operation, with `at` in the database of this store; a refusal ends the command with one line that says what
        to do."""

        async def inside() -> T:
            async with self.database() as db:
                await check_key(db, secret_key(self.settings))
                settings = await with_known_keys(db, self.settings)
                async with all_shards(db, settings) as everywhere:
                    actor = f"operator:{_user()}"
                    by = Operator(db, settings, actor=actor, request_id=new_id("req"), everywhere=everywhere)
                    done = await work(by if at is None else await by.at_store(at))
                _warn_of(everywhere.away)
                return done

        try:
            return asyncio.run(inside())
        except AccessRefused as refusal:
            raise Refused(str(refusal)) from refusal
        except Unavailable as error:
            message = f"{error}; check that it runs and that STOA_DATABASE_URL is correct"
            raise Refused(message, UNREACHABLE) from error


@asynccontextmanager
async def all_shards(db: Database, settings: Settings) -> AsyncGenerator[Everywhere]:
    """Reads from all shards for one command; they are looked for when they are first needed."""
    read_url = partial(shard_url, Cipher(secret_key(settings)))
    shards = Shards(db, read_url, size=db.size, statement_timeout_ms=_STATEMENT_MS)
    everywhere = Everywhere(db, shards, look=True)
    try:
        yield everywhere
    finally:
        await everywhere.close()


def _warn_of(away: Collection[str]) -> None:
    """Name the shards that did not answer, and let the command end with the code for a result in part."""
    if away:
        names = ", ".join(sorted(away))
        click.echo(f"warning: {names} did not answer: what its stores have is missing from this result", err=True)
        click.get_current_context().call_on_close(lambda: sys.exit(IN_PART))


def open_console(settings: Settings) -> Console:
    """The console of the `stoa` command."""

    @asynccontextmanager
    async def database() -> AsyncGenerator[Database]:
        with database_url(settings) as (url, started):
            if started:
                await migrate.migrate(url)
            opened = Database(url, size=2, statement_timeout_ms=_STATEMENT_MS)
            try:
                await migrate.check_schema(opened)
                yield opened
            finally:
                await opened.close()

    return Console(settings, database)


@contextmanager
def database_url(settings: Settings) -> Generator[tuple[str, bool]]:
    """The database's URL, and whether its server was started for this command and must be migrated."""
    if settings.database_url:
        yield settings.database_url, False
        return
    server = EmbeddedPostgres(settings.data_dir / "postgres")
    try:
        with progress() as shown:
            shown.add_task("Starting PostgreSQL", total=None)
            server.start()
    except DataFolderInUse:
        yield server.dsn, False  # a running service owns the server; its socket accepts us too
        return
    try:
        yield server.dsn, True
    finally:
        server.stop()


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a user database
        return "unknown"


def print_rows(rows: Sequence[Any], *, as_json: bool, none: str) -> None:
    """Print a table with one row per item, or a JSON array."""
    if as_json:
        _print_json(rows)
    elif rows:
        from stoa.access.tables import show_rows  # noqa: PLC0415

        show_rows([*map(_fields, rows)], _text)
    else:
        click.echo(none)


def print_one(row: Any, *, as_json: bool) -> None:
    """Print one item with a line per field, or a JSON object."""
    if as_json:
        _print_json(row)
        return
    from stoa.access.tables import show_one  # noqa: PLC0415

    show_one(_fields(row), _text)


@contextmanager
def progress(*, quiet: bool = False) -> Generator["Progress"]:
    """Progress bars on stderr, if it is a terminal and the output is not for a program."""
    from stoa.access.tables import bars  # noqa: PLC0415

    with bars(quiet=quiet) as shown:
        yield shown


def warn_shown_once(credential: str) -> None:
    """Warn on stderr, so that the warning never mixes with output for a program."""
    click.echo(f"This {credential} is shown only once: store it in a safe place now.", err=True)


def _print_json(value: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _fields(row: Any) -> Mapping[str, Any]:
    return msgspec.structs.asdict(row) if isinstance(row, msgspec.Struct) else row


def _text(value: Any) -> str:
    """A value in a form for people."""
    if isinstance(value, msgspec.Raw):
        value = msgspec.json.decode(value)
    if value is None or value in ([], {}, ""):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%SZ")
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return "; ".join(f"{name}: {_text(inner)}" for name, inner in pairs)
    if isinstance(value, list):
        return ", ".join(map(_text, cast("list[Any]", value)))
    return str(value)
