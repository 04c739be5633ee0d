"""The health page: database, schema, queues, partitions and overdue maintenance."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

import msgspec

from stoa.db import migrate
from stoa.db.query import Executor
from stoa.db.shards import DIRECTORY
from stoa.mail.queries import COUNTS
from stoa.operations.maintenance import EVERY_S
from stoa.operations.measuring import IMPORT_QUEUE, LATE_S, ImportQueue
from stoa.portal.kit.pages import ROOT, Audience, Pages, View
from stoa.portal.kit.visit import Visit
from stoa.portal.operators.queries import (
    DATABASE,
    MIGRATIONS,
    OVERDUE_CHORES,
    PARTITIONS,
    AppliedMigration,
    DatabaseStatus,
    OverdueTask,
    Partitions,
)
from stoa.webhooks.delivery.failing_receivers import FAILING_RECEIVERS, FailingReceiver
from stoa.webhooks.delivery.queries import BACKLOG, Backlog

pages = Pages()
_MAX_QUEUE_AGE = timedelta(minutes=1)
_MAX_TASK_DELAY = timedelta(minutes=10)
_MAX_CONNECTION_SHARE = 0.8


class HealthReport(msgspec.Struct):
    """The state of one database."""

    database: DatabaseStatus
    migrations: list[AppliedMigration]
    imports: ImportQueue
    backlog: Backlog
    partitions: list[Partitions]
    overdue: list[OverdueTask]

    @property
    def late(self) -> list[OverdueTask]:
        """Maintenance tasks that no worker seems to perform; short delays are normal."""
        return [each for each in self.overdue if each.since and self.database.now - each.since > _MAX_TASK_DELAY]


class Totals(msgspec.Struct):
    """The queues of all databases together."""

    pending: int
    oldest_seconds: float
    failing: int
    running: int
    queued: int
    bytes: int


class Problem(msgspec.Struct):
    """A problem that an operator should look at."""

    message: str
    tone: str = "warn"
    url: str = ""  # of the part of the page, or the page, that shows more


@pages.page("/operators/health", audience=Audience.OPERATOR)
async def operator_health(visit: Visit) -> View:
    reports = await visit.everywhere.each(_report)
    failing = await FAILING_RECEIVERS.all(visit.everywhere)
    stuck_mails = (await COUNTS.one(visit.directory)).stuck if visit.settings.smtp_url else 0
    context = {
        "report": reports[DIRECTORY],
        "totals": _totals(list(reports.values())),
        "failing": failing,
        "problems": all_problems(reports, failing, stuck_mails, visit.everywhere.away),
        "latest": migrate.LATEST,
        "every_s": round(EVERY_S),
    }
    return View("operators/health.html", context)


async def _report(db: Executor) -> HealthReport:
    # Sequential, so that this page takes only one connection from the pool.
    return HealthReport(
        await DATABASE.one(db),
        await MIGRATIONS.all(db),
        await IMPORT_QUEUE.one(db),
        await BACKLOG.one(db),
        await PARTITIONS.all(db),
        await OVERDUE_CHORES.all(db),
    )


def _totals(reports: Sequence[HealthReport]) -> Totals:
    return Totals(
        sum(each.backlog.pending for each in reports),
        max(each.backlog.oldest_seconds for each in reports),
        sum(each.backlog.open_breakers for each in reports),
        sum(each.imports.running for each in reports),
        sum(each.imports.waiting for each in reports),
        sum(each.database.bytes for each in reports),
    )


def all_problems(
    reports: Mapping[str, HealthReport], failing: Sequence[FailingReceiver], stuck_mails: int, away: Collection[str]
) -> list[Problem]:
    """Return the problems of all databases, the most severe first; those of a shard begin with its name."""
    shards = f"{ROOT}/operators/shards"
    found = [Problem(f"Shard {name} does not answer. Its stores fail.", "bad", shards) for name in sorted(away)]
    for name, report in reports.items():
        of_shard = f"Shard {name}: " if name else ""
        found += [msgspec.structs.replace(each, message=of_shard + each.message) for each in problems(report)]
    if any(report.backlog.open_breakers for report in reports.values()):
        found.append(Problem(_failing(failing), url="#failing"))
    if stuck_mails:
        found.append(
            Problem("Email cannot be sent. The page Email shows why.", url=f"{ROOT}/operators/outbox?status=failed")
        )
    return sorted(found, key=lambda each: each.tone != "bad")


def problems(report: HealthReport) -> list[Problem]:
    """Return the problems of one database, the most severe first."""
    found: list[Problem] = []
    if not report.migrations or report.migrations[0].version < migrate.LATEST:
        found.append(Problem("The schema is older than this release. Run the migrations.", "bad"))
    if not all(each.ahead for each in report.partitions):
        found.append(Problem("There is no partition for tomorrow. Check that a worker is running.", "bad"))
    if report.database.connections > _MAX_CONNECTION_SHARE * report.database.max_connections:
        found.append(Problem("More than 80% of the database connections are in use."))
    if not report.backlog.workers:
        found.append(Problem("No delivery worker is running. Start one with `stoa worker`.", "bad"))
    elif report.backlog.oldest_unrouted_seconds > LATE_S:
        found.append(Problem("Events have been waiting for a delivery worker for more than a minute.", "bad"))
    if report.backlog.oldest_seconds > _MAX_QUEUE_AGE.total_seconds():
        found.append(Problem("A webhook delivery has been waiting for more than a minute."))
    if report.imports.oldest and report.database.now - report.imports.oldest > _MAX_QUEUE_AGE:
        found.append(Problem("An import has been waiting for more than a minute."))
    if report.late:
        found.append(Problem("Maintenance is behind. Check that a worker is running."))
    return found


def _failing(receivers: Sequence[FailingReceiver]) -> str:
    """Which receiver has been failing for the longest time, and why."""
    text = "Some webhook receivers are failing. Stoa retries them less often."
    if not receivers:  # it has recovered between two statements
        return text
    first = receivers[0]
    why = f": {first.last_error}" if first.last_error else ""
    return f"{text} The oldest is {first.host or 'one without a URL'} of {first.app_name}{why}."
