"""Telemetry: structured log lines with an allow-list of fields, and Prometheus metrics."""

import logging
import os
import sys
import traceback
from collections.abc import Callable, MutableMapping, Sequence
from importlib.metadata import version
from typing import Any

import msgspec
import structlog
from prometheus_client import Counter, Gauge, Histogram

from stoa import DISTRIBUTION
from stoa.db.errors import cause
from stoa.rest.request import Observed
from stoa.settings import Settings, described
from stoa.webhooks.delivery.retry_policy import SentAttempt

# Only these fields are logged, so that no other field can leak personal data or secrets.
LOGGED = frozenset(
    """timestamp level event request_id method operation status code duration_ms store_id app_id error cause sqlstate where
    process pid exit_code version settings migration last_id position note key encrypted unreadable reason duty shard kind
    tries retry_in_s calls""".split()
)
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
VERSION = version(DISTRIBUTION)
_SERVER_ERROR = 500  # from here on, requests are logged as errors

REQUESTS = Counter("stoa_requests", "Requests answered", ["operation", "method", "status"])
SECONDS = Histogram(
    "stoa_request_seconds",
    "Time to answer a request, without the wait that the caller requested",
    ["operation"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
REFUSALS = Counter("stoa_refusals", "Requests refused, by code", ["code"])
SHED = Counter("stoa_shed", "Requests shed because of overload, by reason", ["reason"])
ATTEMPTS = Counter("stoa_webhook_attempts", "Attempts to deliver an event, by outcome", ["outcome"])
ATTEMPT_SECONDS = Histogram(
    "stoa_webhook_attempt_seconds",
    "Time that receivers took to respond",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15),
)
LATENCY = Histogram(
    "stoa_webhook_latency_seconds",
    "Time from an event to the first byte of its first attempt",
    buckets=(0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300),
)


def _shared_gauge(name: str, meaning: str, labels: Sequence[str] = ()) -> Gauge:
    """A figure of the whole service: whichever process measured it last knows it best."""
    return Gauge(name, meaning, labels, multiprocess_mode="mostrecent")


_SHARD = ("shard",)  # empty for the directory


PENDING = _shared_gauge("stoa_webhook_pending", "Deliveries that are waiting to be sent", _SHARD)
UNROUTED = _shared_gauge("stoa_webhook_unrouted", "Events that are not routed yet", _SHARD)
OLDEST = _shared_gauge("stoa_webhook_oldest_pending_seconds", "Age of the oldest pending delivery", _SHARD)
OLDEST_UNROUTED = _shared_gauge(
    "stoa_webhook_oldest_unrouted_seconds", "Age of the oldest event that is not routed", _SHARD
)
LATE = _shared_gauge(
    "stoa_webhook_late_seconds", "How long the most overdue deliveries have waited for a worker", _SHARD
)
BREAKERS = _shared_gauge("stoa_webhook_open_breakers", "Receivers whose circuit breaker is open", _SHARD)
RECEIVERS = _shared_gauge(
    "stoa_webhook_receivers",
    "Receivers to which deliveries wait or were sent within a day, failing ones included",
    _SHARD,
)
DELIVERY_WORKERS = _shared_gauge("stoa_webhook_workers", "Delivery workers that are connected to the database", _SHARD)
IMPORTS_WAITING = _shared_gauge("stoa_import_waiting", "Imports that wait for a worker", _SHARD)
IMPORTS_RUNNING = _shared_gauge("stoa_import_running", "Imports that a worker runs", _SHARD)
OLDEST_IMPORT = _shared_gauge(
    "stoa_import_oldest_waiting_seconds", "Age of the oldest import that waits for a worker", _SHARD
)
PICTURES_WAITING = _shared_gauge(
    "stoa_picture_waiting", "Pictures that are waiting to be fetched, up to 10,000", _SHARD
)
MAILS_WAITING = _shared_gauge("stoa_mail_waiting", "Emails that wait to be sent, up to 10,000")
OLDEST_MAIL = _shared_gauge(
    "stoa_mail_oldest_waiting_seconds", "Age of the oldest email that waits to be sent; 0 without a mail server"
)
MAILS_GIVEN_UP = _shared_gauge("stoa_mail_given_up", "Emails that were given up in the last 24 hours")
BACKUP_AT = _shared_gauge("stoa_backup_timestamp_seconds", "Time of the last `stoa backup`; 0 if there is none", _SHARD)
CLOCK_OFFSET = _shared_gauge("stoa_clock_offset_seconds", "This machine's clock minus the clock of the database")
MEASURED_AT = _shared_gauge("stoa_measured_timestamp_seconds", "Time at which the queues were last measured", _SHARD)
SHARD_AWAY = _shared_gauge("stoa_shard_away", "1 if a shard does not answer", _SHARD)
SLOT_BYTES = _shared_gauge(
    "stoa_replication_slot_bytes", "Log that a server keeps for its replication slots, at most", _SHARD
)
# What is measured in each database; of a shard that was removed, nothing is known.
OF_SHARDS = (
    PENDING,
    UNROUTED,
    OLDEST,
    OLDEST_UNROUTED,
    LATE,
    BREAKERS,
    RECEIVERS,
    DELIVERY_WORKERS,
    IMPORTS_WAITING,
    IMPORTS_RUNNING,
    OLDEST_IMPORT,
    PICTURES_WAITING,
    BACKUP_AT,
    MEASURED_AT,
    SHARD_AWAY,
    SLOT_BYTES,
)
MOVES_LEFT = _shared_gauge("stoa_shard_moves_left", "Moves of stores that have not ended, and no process works on")
MESSAGES_WAITING = _shared_gauge("stoa_shard_messages_waiting", "Messages from the directory to stores and shards")
OLDEST_MESSAGE = _shared_gauge("stoa_shard_oldest_message_seconds", "Age of the oldest message from the directory")

IN_FLIGHT = Gauge(
    "stoa_requests_in_flight", "Requests to the app API that are not answered", multiprocess_mode="livesum"
)
UNSENT = Gauge(
    "stoa_unsent_bytes", "Bytes of responses that clients have not taken, at most", multiprocess_mode="livesum"
)
PAGES_IN_FLIGHT = Gauge("stoa_pages_in_flight", "Requests for pages that are not answered", multiprocess_mode="livesum")
UPLOAD_BYTES = Gauge("stoa_upload_bytes", "Bytes of uploads in temporary files", multiprocess_mode="livesum")
SLOW_CLIENTS = Counter(
    "stoa_slow_clients_disconnected", "Clients that did not take their responses, by the limit they exceeded", ["limit"]
)
CONNECTIONS = Gauge(
    "stoa_database_connections", "Open database connections", ["pool", "state", "shard"], multiprocess_mode="livesum"
)
POOL_SIZE = Gauge(
    "stoa_database_pool_size", "Most connections of a pool", ["pool", "shard"], multiprocess_mode="livesum"
)
POOL_WAITING = Gauge(
    "stoa_database_waiting", "Tasks that wait for a connection", ["pool", "shard"], multiprocess_mode="livesum"
)
POOL_WAITS = Counter("stoa_database_waits", "Times that a task waited for a connection", ["pool", "shard"])
POOL_WAIT_SECONDS = Counter("stoa_database_wait_seconds", "Time that tasks waited for a connection", ["pool", "shard"])
POOL_TIMEOUTS = Counter("stoa_database_wait_timeouts", "Tasks that gave up waiting for a connection", ["pool", "shard"])
DATABASE_ERRORS = Counter("stoa_database_errors", "Database errors, by class of SQLSTATE", ["class"])
READS = Counter("stoa_reads", "Statements of reads, by server; only with a replica", ["server"])
FALLBACKS = Counter("stoa_replica_fallbacks", "Reads that the primary served instead of the replica", ["reason"])
REPLICA_AWAY = Gauge("stoa_replica_away", "1 if a worker cannot use its replica", multiprocess_mode="livemax")
REPLICA_LAG = Gauge(
    "stoa_replica_lag_seconds", "How long ago the replica was as far as the primary", multiprocess_mode="livemax"
)
SHARD_COPY_AGE = Gauge(
    "stoa_shard_copy_age_seconds", "How old the copies of global tables can be", ["shard"], multiprocess_mode="livemax"
)
LOOP_LAG = Histogram(
    "stoa_event_loop_lag_seconds",
    "How much later than planned the event loop of a process continued",
    ["process"],
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)


def _allowed(_logger: Any, _name: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {name: value for name, value in line.items() if name in LOGGED}


def _json(_logger: Any, _name: str, line: MutableMapping[str, Any]) -> bytes:
    return msgspec.json.encode(dict(line))


def configure_logging(settings: Settings) -> None:
    """Log JSON in production, readable text in a terminal."""
    as_text = settings.log_format == "text" or (settings.log_format == "auto" and sys.stderr.isatty())
    shared: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _allowed,
    ]
    structlog.configure(
        processors=[*shared, structlog.dev.ConsoleRenderer(pad_event_to=20) if as_text else _json],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[settings.log_level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr)
        if as_text
        else structlog.BytesLoggerFactory(sys.stderr.buffer),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_Relay()], level=logging.WARNING, force=True)


class _Relay(logging.Handler):
    """Forwards log records of libraries; only Granian's keep their message, because it never contains personal data."""

    def emit(self, record: logging.LogRecord) -> None:
        event = record.getMessage().partition("\n")[0] if record.name.startswith("_granian") else record.name
        error = record.exc_info[1] if record.exc_info else None
        structlog.get_logger().log(record.levelno, event, **(fault(error) if error else {}))


class Observer:
    """Counts and logs each answered request; the metric of each label combination is looked up once."""

    def __init__(self, settings: Settings, record: Callable[[Observed], None]) -> None:
        self._record = record
        self._log = structlog.get_logger()
        self._counting = settings.metrics != "off"
        self._access_log = settings.access_log
        self._counters: dict[tuple[str, str, int], Any] = {}
        self._timers: dict[str, Any] = {}

    def __call__(self, seen: Observed) -> None:
        self._record(seen)
        if self._counting:
            self._count(seen)
        if seen.error is not None or self._access_log:
            self._write(seen)

    def _count(self, seen: Observed) -> None:
        key = (seen.operation, seen.method, seen.status)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = REQUESTS.labels(seen.operation, seen.method, str(seen.status))
        counter.inc()
        timer = self._timers.get(seen.operation)
        if timer is None:
            timer = self._timers[seen.operation] = SECONDS.labels(seen.operation)
        timer.observe(seen.seconds)
        if seen.code:
            REFUSALS.labels(seen.code).inc()
        if seen.shed:
            SHED.labels(seen.shed).inc()

    def _write(self, seen: Observed) -> None:
        # A stream that fails has sent its status before.
        log = self._log.error if seen.status >= _SERVER_ERROR or seen.error is not None else self._log.info
        extra = fault(seen.error) if seen.error else {"reason": seen.shed} if seen.shed else {}
        log(
            "request",
            request_id=seen.request_id,
            method=seen.method,
            operation=seen.operation,
            status=seen.status,
            code=seen.code,
            duration_ms=round(seen.seconds * 1000, 2),
            store_id=seen.store_id,
            app_id=seen.app_id,
            **extra,
        )


def count_attempt(sent: SentAttempt) -> None:
    """Count an attempt to deliver an event."""
    ATTEMPTS.labels(sent.outcome).inc()
    ATTEMPT_SECONDS.observe(sent.seconds)
    if sent.latency is not None:
        LATENCY.observe(sent.latency)


def fault(error: BaseException) -> dict[str, str]:
    """The type of an error, its cause and its stack of files and lines; never its message or values, which may be
    personal data."""
    frames = traceback.extract_tb(error.__traceback__)[-12:]
    where = " > ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in frames)
    return {**cause(error), "where": where}


def log_start(process: str, settings: Settings | None = None) -> None:
    """Log that this process started; with settings, those that differ from their defaults, without secrets."""
    changed = {each["variable"]: each["value"] for each in described(settings or Settings())
               if each["value"] != each["default"]}  # fmt: skip
    extra = {"settings": changed} if settings else {}
    structlog.get_logger().info("process started", process=process, pid=os.getpid(), version=VERSION, **extra)


def log_stop(process: str) -> None:
    """Log that this process stops because it was asked to."""
    structlog.get_logger().info("process stopped", process=process, pid=os.getpid())
