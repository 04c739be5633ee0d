"""The load of the service over time: samples that every process adds to, and the portal shows operators as charts."""

import operator
from datetime import UTC, datetime

from stoa.db.fan_out import Everywhere
from stoa.db.query import Command, Query
from stoa.usage.queries import SUMS, TYPED_COLUMNS, Metrics
from stoa.usage.rules import COUNTERS

_SERVICE = "the load of the service belongs to no store"
_COLUMNS = ", ".join(COUNTERS)
_INCREMENTS = ", ".join(f"{name} = s.{name} + excluded.{name}" for name in COUNTERS)
_GAUGES = (
    "pending",
    "unrouted",
    "late_seconds",
    "imports_waiting",
    "connections",
    "max_connections",
    "database_ms",
    "bytes",
)
_LONGEST = ("late_seconds", "database_ms")
_MAXIMA = ", ".join(f"{name} = greatest(s.{name}, excluded.{name})" for name in _GAUGES)
# The start of the current interval of each length, by the clock of the database. The order prevents deadlocks.
_INTERVALS = """(SELECT minutes, date_bin(make_interval(mins => minutes), now(), timestamptz '2000-01-01 00:00Z') AS at
                   FROM (VALUES (5), (60)) AS lengths (minutes) ORDER BY minutes) AS m"""

ADD_TRAFFIC = Command(
    f"""INSERT INTO service_samples AS s (minutes, at, {_COLUMNS})
        SELECT m.minutes, m.at, {_COLUMNS} FROM {_INTERVALS}, json_to_record($1::text::json) AS r({TYPED_COLUMNS})
        ON CONFLICT (minutes, at) DO UPDATE SET {_INCREMENTS}""",
    unbound=_SERVICE,
)
# The size of the database is measured once in an interval, because that reads the size of every file.
ADD_GAUGES = Command(
    f"""INSERT INTO service_samples AS s (minutes, at, {", ".join(_GAUGES)})
        SELECT m.minutes, m.at, $1::bigint, $2::bigint, $3::float8, $4::bigint,
               (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
               current_setting('max_connections')::bigint, $5::float8,
               CASE WHEN NOT EXISTS (SELECT FROM service_samples o
                                      WHERE o.minutes = m.minutes AND o.at = m.at AND o.bytes IS NOT NULL)
                    THEN pg_database_size(current_database()) END
          FROM {_INTERVALS}
        ON CONFLICT (minutes, at) DO UPDATE SET {_MAXIMA}""",
    unbound=_SERVICE,
)
FORGET_OLD_SAMPLES = Command(
    """DELETE FROM service_samples
        WHERE at < now() - CASE WHEN minutes = 5 THEN interval '25 hours' ELSE interval '31 days' END""",
    unbound=_SERVICE,
)


class Load(Metrics):
    """The load of one interval; a figure is None if nothing measured it."""

    at: datetime = datetime.min.replace(tzinfo=UTC)
    pending: int | None = None
    unrouted: int | None = None
    late_seconds: float | None = None
    imports_waiting: int | None = None
    connections: int | None = None
    max_connections: int | None = None
    database_ms: float | None = None
    bytes: int | None = None


# Samples of `$1` minutes over the last `$3` hours, in intervals of `$2` minutes, also those without samples.
LOAD = Query(
    Load,
    f"""SELECT {SUMS}, i.at, max(u.pending) AS pending, max(u.unrouted) AS unrouted, max(u.late_seconds) AS late_seconds,
               max(u.imports_waiting) AS imports_waiting, max(u.connections) AS connections,
               max(u.max_connections) AS max_connections, max(u.database_ms) AS database_ms, max(u.bytes) AS bytes
          FROM generate_series(
                   date_bin(make_interval(mins => $2::integer), now(), timestamptz '2000-01-01 00:00Z')
                   - make_interval(hours => $3::integer) + make_interval(mins => $2::integer),
                   now(), make_interval(mins => $2::integer)) AS i (at)
               LEFT JOIN service_samples u ON u.minutes = $1::integer AND u.at >= i.at
                                          AND u.at < i.at + make_interval(mins => $2::integer)
         GROUP BY i.at ORDER BY i.at""",
    unbound=_SERVICE,
)


async def load_of(everywhere: Everywhere, sample_minutes: int, shown_minutes: int, hours: int) -> list[Load]:
    """The load of all databases together; of two ages or durations, the longer one."""
    found: dict[datetime, Load] = {}
    for answer in (await everywhere.each(lambda db: LOAD.all(db, sample_minutes, shown_minutes, hours))).values():
        for each in answer:
            if (sum_ := found.setdefault(each.at, each)) is not each:
                _add(sum_, each)
    return sorted(found.values(), key=lambda each: each.at)


def _add(load: Load, other: Load) -> None:
    load.add(other)
    for name in _GAUGES:
        mine, theirs = getattr(load, name), getattr(other, name)
        join = max if name in _LONGEST else operator.add
        setattr(load, name, mine if theirs is None else theirs if mine is None else join(mine, theirs))
