"""The connection budget: how many database connections the processes of a service open, and how many the server allows."""

import msgspec

from stoa.background import CONNECTIONS as DELIVERIES
from stoa.db.connection import path_to_server
from stoa.db.errors import PostgresError, Unavailable
from stoa.db.pool import Database
from stoa.db.query import Executor, Query
from stoa.db.replica import problem_of
from stoa.settings import Settings, WrongSetting

BESIDE_THE_POOL = 2  # of each web worker: one for single statements outside a transaction, one for notifications
CONCURRENT_IMPORTS = 4  # so that a small import does not wait for a large one
IMPORTS = CONCURRENT_IMPORTS + 2  # one each to claim jobs and for single statements outside a transaction
COMMANDS = 3  # of `stoa` commands and migrations, which come and go


class Limits(msgspec.Struct):
    """What the server allows, and what others use already. A limit of -1 is none."""

    max_connections: int
    reserved: int  # for superusers
    role: int
    database: int
    used: int  # connections of all clients, ours included

    @property
    def available(self) -> int:
        limits = [self.max_connections - self.reserved, *(each for each in (self.role, self.database) if each >= 0)]
        return min(limits)

    @property
    def source(self) -> str:
        """Where the lowest limit comes from."""
        if self.available == self.role:
            return f"the role's CONNECTION LIMIT is {self.role}"
        if self.available == self.database:
            return f"the database's CONNECTION LIMIT is {self.database}"
        return f"max_connections is {self.max_connections}, of which {self.reserved} are reserved"


LIMITS = Query(
    Limits,
    """SELECT current_setting('max_connections')::integer AS max_connections,
              current_setting('superuser_reserved_connections')::integer
                  + coalesce(nullif(current_setting('reserved_connections', true), ''), '0')::integer AS reserved,
              (SELECT CASE WHEN rolsuper THEN -1 ELSE rolconnlimit END FROM pg_roles WHERE rolname = current_user) AS role,
              (SELECT datconnlimit FROM pg_database WHERE datname = current_database()) AS database,
              (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used""",
    unbound="the server's limits belong to no store",
)


class Budget(msgspec.Struct):
    """The most connections that a service opens, by purpose."""

    parts: list[tuple[str, int]]

    @property
    def total(self) -> int:
        return sum(count for _, count in self.parts)

    def __str__(self) -> str:
        return " + ".join(f"{count} ({purpose})" for purpose, count in self.parts) + f" = {self.total}"


def service_budget(settings: Settings, *, background: bool = True) -> Budget:
    each = settings.database_pool + BESIDE_THE_POOL
    parts = [
        (f"{settings.workers} web workers with a pool of {settings.database_pool} and {BESIDE_THE_POOL} others each",
         settings.workers * each),
        ("one more web worker during a reload", each),
    ]  # fmt: skip
    return Budget([*parts, *(worker_budget().parts if background else []), ("commands", COMMANDS)])


def replica_budget(settings: Settings) -> Budget:
    """The most connections to the server of STOA_DATABASE_READ_URL."""
    workers = f"{settings.workers} web workers with a pool of {settings.database_pool} each"
    return Budget([
        (workers, settings.workers * settings.database_pool),
        ("one more web worker during a reload", settings.database_pool),
    ])  # fmt: skip


async def replica_problem(primary: Database, settings: Settings) -> str | None:
    """Why the replica does not serve reads, or not as many as configured; None if it does."""
    if problem := await problem_of(settings.database_read_url, primary):
        return f"{problem}; reads use the primary"
    replica = Database(settings.database_read_url, size=1)
    try:
        limits, budget = await LIMITS.one(replica), replica_budget(settings)
    except (PostgresError, Unavailable) as error:
        return f"{error}; reads use the primary"
    finally:
        await replica.close()
    if budget.total > limits.available:
        return (
            f"this service opens up to {budget} connections to it, but only {limits.available} are allowed "
            f"({limits.source}); further reads use the primary"
        )
    return None


def worker_budget(*, deliveries: bool = True, imports: bool = True) -> Budget:
    parts = [("deliveries", DELIVERIES)] if deliveries else []
    return Budget([*parts, *([("imports", IMPORTS)] if imports else [])])


class RoleSettings(msgspec.Struct):
    """What the server sets for each new session of the role."""

    role: str
    statement_timeout: str
    jit: str


ROLE_SETTINGS = Query(
    RoleSettings,
    """SELECT quote_ident(current_user) AS role, current_setting('statement_timeout') AS statement_timeout,
              current_setting('jit') AS jit""",
    unbound="the role's settings belong to no store",
)


async def check_connections(db: Executor, url: str, settings: Settings, budget: Budget) -> list[str]:
    """Refuse connections that cannot work; returns warnings. Behind a pooler, the pooler limits their number."""
    if not (await path_to_server(url)).pooled:
        warning = await check_budget(db, budget)
        return [warning] if warning else []
    return await lost_behind_a_pooler(db, url, settings)


async def lost_behind_a_pooler(db: Executor, url: str, settings: Settings) -> list[str]:
    """What the service gives up behind a pooler. Refuses a direct URL that leads through one too."""
    path, direct = await path_to_server(url), await path_to_server(settings.database_direct_url or url)
    if settings.database_direct_url and direct.pooled:
        raise WrongSetting("STOA_DATABASE_DIRECT_URL leads through a connection pooler; set it to the server itself")
    found: list[str] = []
    if direct.pooled:
        found.append(
            "STOA_DATABASE_URL leads through a connection pooler: deliveries poll for events instead of being notified, and "
            "`stoa migrate`, `stoa backup` and `stoa restore` are refused; set STOA_DATABASE_DIRECT_URL to the server itself"
        )
    if not path.prepares:
        found.append(
            "the connection pooler does not keep prepared statements, so every statement is planned again; use PgBouncer "
            "1.21 or newer with max_prepared_statements"
        )
    of_role = await ROLE_SETTINGS.one(db)
    if of_role.statement_timeout == "0" or of_role.jit == "on":
        found.append(
            "a connection pooler does not pass on the settings of single statements; run `ALTER ROLE "
            f"{of_role.role} SET statement_timeout = '30s'` and `ALTER ROLE {of_role.role} SET jit = off`"
        )
    return found


async def check_budget(db: Executor, budget: Budget) -> str | None:
    """Refuse a budget that exceeds the limit by itself; returns a warning if it does with the connections of others."""
    limits = await LIMITS.one(db)
    arithmetic = f"this service opens up to {budget}"
    if budget.total > limits.available:
        raise WrongSetting(
            f"STOA_DATABASE_POOL and STOA_WORKERS need more connections than the database allows: {arithmetic}, but only "
            f"{limits.available} are allowed ({limits.source}). Lower the settings, or raise the limit"
        )
    if budget.total + limits.used > limits.available:
        return f"{arithmetic}, and {limits.used} are in use already, but only {limits.available} are allowed ({limits.source})"
    return None
