"""How the service is: its database and schema, what waits in its queues, and what housekeeping has still to do."""

from datetime import timedelta

import msgspec

from stoa.db import migrate
from stoa.db.query import Executor
from stoa.maintenance import EVERY_S
from stoa.portal.pages import Pages, View, Who
from stoa.portal.queries import (
    DAYS,
    FAILING,
    IMPORTS_NOW,
    MIGRATIONS,
    OVERDUE,
    SERVER,
    AppliedMigration,
    Days,
    Failing,
    ImportsNow,
    Overdue,
    Server,
)
from stoa.portal.visit import Visit
from stoa.webhooks.lanes import BACKLOG, Backlog

pages = Pages()
_LATE = timedelta(minutes=1)  # what waits longer is worth a look
_SLOW_CHORE = timedelta(minutes=10)
_NEARLY_FULL = 0.8


class Seen(msgspec.Struct):
    """What was found when somebody looked."""

    server: Server
    migrations: list[AppliedMigration]
    imports: ImportsNow
    backlog: Backlog
    days: list[Days]
    failing: list[Failing]
    overdue: list[Overdue]

    @property
    def late(self) -> list[Overdue]:
        """Chores that nobody seems to do; a moment's delay is usual."""
        return [each for each in self.overdue if each.since and self.server.moment - each.since > _SLOW_CHORE]


class Concern(msgspec.Struct):
    """Something that an operator should look at."""

    words: str
    tone: str = "warn"


@pages.page("/operators/health", who=Who.OPERATOR)
async def operator_health(visit: Visit) -> View:
    seen = await _look(visit.db)
    context = {"seen": seen, "concerns": concerns(seen), "latest": migrate.LATEST, "every_s": round(EVERY_S)}
    return View("operators/health.html", context)


async def _look(db: Executor) -> Seen:
    """One after the other: a page for a few must not take the connections of many."""
    return Seen(
        await SERVER.one(db),
        await MIGRATIONS.all(db),
        await IMPORTS_NOW.one(db),
        await BACKLOG.one(db),
        await DAYS.all(db),
        await FAILING.all(db),
        await OVERDUE.all(db),
    )


def concerns(seen: Seen) -> list[Concern]:
    """What is not as it should be, the worst first."""
    found: list[Concern] = []
    if not seen.migrations or seen.migrations[0].version < migrate.LATEST:
        found.append(Concern("The schema is behind this release: run the migrations.", "bad"))
    if not all(each.ahead for each in seen.days):
        found.append(Concern("There is no partition for tomorrow: is a worker running?", "bad"))
    if seen.server.connections > _NEARLY_FULL * seen.server.most_connections:
        found.append(Concern("Nearly all connections of the database are in use."))
    if seen.backlog.oldest_seconds > _LATE.total_seconds():
        found.append(Concern("A webhook delivery has waited for more than a minute."))
    if seen.backlog.open_breakers:
        found.append(Concern("Some receivers of webhooks fail, and are tried less often."))
    if seen.imports.oldest and seen.server.moment - seen.imports.oldest > _LATE:
        found.append(Concern("An import has waited for more than a minute."))
    if seen.late:
        found.append(Concern("Housekeeping is behind: is a worker running?"))
    return found
