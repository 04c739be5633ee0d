"""The health page and the problems that it reports."""

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta

import pytest

from stoa.app import Application
from stoa.db import migrate
from stoa.db.pool import Database
from stoa.operations.measuring import ImportQueue
from stoa.portal.operators.health import HealthReport, all_problems, problems
from stoa.portal.operators.queries import AppliedMigration, DatabaseStatus, OverdueTask, Partitions
from stoa.webhooks.delivery.queries import Backlog
from tests.support.people import User, create_user

OPERATORS = "/portal/operators"
NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture
async def operator(application: Application, db: Database) -> AsyncIterator[User]:
    """A signed-in operator."""
    user = await create_user(application, db, operator=True, name="Olive Run")
    yield user
    await user.client.aclose()


def healthy_report() -> HealthReport:
    return HealthReport(
        DatabaseStatus("18.0", 10_000_000, NOW - timedelta(days=1), 12, 100, NOW),
        [AppliedMigration(migrate.LATEST, "latest", NOW)],
        ImportQueue(1, 0, None),
        Backlog(3, 0, 0, 0.4, 0.2, 0.1, 1, 4),
        [Partitions("events", 9, date(2026, 6, 8), ahead=True)],
        [OverdueTask("sessions", 3, NOW - timedelta(seconds=4))],
    )


async def test_the_page_shows_the_database_and_the_queues(operator: User) -> None:
    await operator.open(f"{OPERATORS}/health")
    for expected in ("PostgreSQL", "Up to date", "Pending deliveries", "Maintenance", "initial", "Connections"):
        assert expected in operator.text, expected


def test_a_healthy_service_has_no_problems() -> None:
    assert problems(healthy_report()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"migrations": [AppliedMigration(migrate.LATEST - 1, "older", NOW)]}, "schema is older"),
        ({"migrations": []}, "schema is older"),
        ({"partitions": [Partitions("events", 0, None, ahead=False)]}, "no partition for tomorrow"),
        ({"database": DatabaseStatus("18.0", 1, NOW, 90, 100, NOW)}, "connections"),
        ({"backlog": Backlog(1, 0, 0, 61.0, 0, 0, 1, 4)}, "delivery has been waiting"),
        ({"backlog": Backlog(1, 0, 2, 0.0, 0, 0, 1, 4)}, "webhook receivers are failing"),
        ({"backlog": Backlog(1, 0, 0, 0.0, 0, 0, 0, 4)}, "No delivery worker is running"),
        ({"backlog": Backlog(1, 1, 0, 0.0, 61.0, 0, 1, 4)}, "Events have been waiting"),
        ({"imports": ImportQueue(0, 1, NOW - timedelta(minutes=2))}, "import has been waiting"),
        ({"overdue": [OverdueTask("sessions", 9, NOW - timedelta(hours=1))]}, "Maintenance is behind"),
    ],
)
def test_a_problem_is_reported(changes: dict[str, object], message: str) -> None:
    report = healthy_report()
    for name, value in changes.items():
        setattr(report, name, value)
    [problem] = all_problems({"": report}, [], 0, ())
    assert message in problem.message


def test_a_problem_of_a_shard_names_it() -> None:
    sick = healthy_report()
    sick.migrations = []
    [away, older] = all_problems({"": healthy_report(), "east": sick}, [], 0, {"west"})
    assert away.message.startswith("Shard west does not answer")
    assert older.message.startswith("Shard east: The schema is older")


def test_email_that_cannot_be_sent_is_a_problem() -> None:
    [problem] = all_problems({"": healthy_report()}, [], 1, ())
    assert "Email cannot be sent" in problem.message
