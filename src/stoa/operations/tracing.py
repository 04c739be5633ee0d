"""Traces by OpenTelemetry, an optional extra: spans of requests, statements and deliveries, sent to a collector.

The libraries are imported only if `STOA_OTLP_ENDPOINT` is set. A span contains ids, names of operations, statuses and SQL with
placeholders, and nothing that a caller sent.
"""

import importlib.util
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from stoa import DISTRIBUTION
from stoa.db.connection import connected
from stoa.db.errors import sqlstate
from stoa.db.query import Executor, Query
from stoa.operations.telemetry import VERSION
from stoa.rest.headers import MOST_HEADERS, method_label
from stoa.rest.request import Observed, Receive, Scope, Send
from stoa.settings import Settings, WrongSetting
from stoa.webhooks.delivery.queries import PendingDelivery
from stoa.webhooks.http.client import Response, Target

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Span, SpanKind

_TRACES = "/v1/traces"
_FAILED = 400
_SERVER_ERROR = 500
_FIRST_WORD = re.compile(r"\s*(\w+)")
_RELATION = re.compile(r"\b(?:FROM|INTO|UPDATE)\s+(\w+)")
# The id of a traced request is the context of its span, so that its log lines, its events and their deliveries name the trace.
_REQUEST_ID = re.compile(r"req_([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})\Z")
REQUEST_OF_EVENT = Query(
    str,
    """SELECT request_id FROM events
        WHERE store_id = $1 AND id = $2 AND routed_on BETWEEN $3::date - 1 AND $3::date + 1""",
)


RequestHandler = Callable[..., Awaitable[None]]  # the dispatcher, or the pages
_HEALTH_CHECKS = ("/live", "/ready")


class LoggedStatement(Protocol):
    """What asyncpg tells about a statement."""

    query: str
    elapsed: float
    exception: BaseException | None


def check_extra(settings: Settings) -> None:
    """Refuse an endpoint that nothing would send to."""
    if settings.otlp_endpoint and not _installed("opentelemetry.exporter.otlp.proto.http"):
        raise WrongSetting(f"STOA_OTLP_ENDPOINT needs the OpenTelemetry libraries: pip install '{DISTRIBUTION}[otel]'")


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:  # not even a part of it
        return False


class Tracing:
    """The tracer of one process. `processor` replaces the export to the collector."""

    def __init__(self, settings: Settings, process: str, processor: "SpanProcessor | None" = None) -> None:
        # An optional extra, and only for those who want traces.
        from opentelemetry import trace  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        named = {"service.name": "stoa", "service.version": VERSION, "stoa.process": process}
        self._provider = TracerProvider(resource=Resource.create(named))
        self._provider.add_span_processor(processor or _exporting(settings.otlp_endpoint))
        self._trace = trace
        self._tracer = self._provider.get_tracer("stoa", VERSION)
        self._propagator = TraceContextTextMapPropagator()
        connected.append(self._log_statements)

    def close(self) -> None:
        """Send what is left, and trace nothing more."""
        connected.remove(self._log_statements)
        self._provider.shutdown()

    # --- requests -----------------------------------------------------------------------------------------------------

    def requests(self, handle: RequestHandler) -> RequestHandler:
        """Handle each request in a span, which continues the trace of the caller."""

        async def traced(scope: Scope, receive: Receive, send: Send, **named: str) -> None:
            if scope["path"] in _HEALTH_CHECKS:
                await handle(scope, receive, send, **named)
                return
            headers: list[tuple[bytes, bytes]] = scope["headers"]
            carrier = {
                name.decode(): value.decode("latin-1")
                for name, value in headers
                if name in (b"traceparent", b"tracestate")
            }
            parent = self._propagator.extract(carrier)
            with self._span(method_label(scope["method"]), parent, self._trace.SpanKind.SERVER) as span:
                context = span.get_span_context()
                if len(headers) < MOST_HEADERS and not any(name == b"x-request-id" for name, _ in headers):
                    given = f"req_{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
                    scope["headers"] = [*headers, (b"x-request-id", given.encode())]
                await handle(scope, receive, send, **named)

        return traced

    def observing(self, observe: Callable[[Observed], None]) -> Callable[[Observed], None]:
        """Also tell the span of a request what is known when it is answered."""

        def observed(seen: Observed) -> None:
            observe(seen)
            span = self._trace.get_current_span()
            if not span.is_recording():
                return
            span.update_name(f"{seen.method} {seen.operation}".rstrip())
            span.set_attribute("http.request.method", seen.method)
            span.set_attribute("http.response.status_code", seen.status)
            span.set_attribute("stoa.operation", seen.operation)
            if seen.store_id is not None:
                span.set_attribute("stoa.store.id", seen.store_id)
            if seen.app_id is not None:
                span.set_attribute("stoa.app.id", seen.app_id)
            if seen.status >= _FAILED:
                span.set_attribute(
                    "error.type", type(seen.error).__name__ if seen.error else seen.code or str(seen.status)
                )
            if seen.status >= _SERVER_ERROR:
                self._fail(span)

        return observed

    # --- statements ---------------------------------------------------------------------------------------------------

    def _log_statements(self, connection: Any) -> None:
        connection.add_query_logger(self._statement)

    def _statement(self, logged: LoggedStatement) -> None:
        """Add the span of a statement that has ended, if it belongs to a request or a delivery."""
        within = self._trace.get_current_span().get_span_context()  # it may have ended with this statement
        if not (within.is_valid and within.trace_flags.sampled):
            return
        ended = time.time_ns()
        name = summary(logged.query)
        kind = self._trace.SpanKind.CLIENT
        span = self._tracer.start_span(name, kind=kind, start_time=ended - int(logged.elapsed * 1e9))
        span.set_attribute("db.system.name", "postgresql")
        span.set_attribute("db.query.summary", name)
        span.set_attribute("db.query.text", logged.query)
        if logged.exception is not None:
            code = sqlstate(logged.exception)
            span.set_attribute("error.type", code or type(logged.exception).__name__)
            self._fail(span)
        span.end(ended)

    # --- deliveries ---------------------------------------------------------------------------------------------------

    def deliveries(
        self, db: Executor
    ) -> Callable[[PendingDelivery, Target, Callable[[Target], Awaitable[Response]]], Awaitable[Response]]:
        """Send each delivery in a span, which continues the trace of the request that caused the event."""

        async def deliver(
            delivery: PendingDelivery, target: Target, send: Callable[[Target], Awaitable[Response]]
        ) -> Response:
            parent = await self._cause(db, delivery)
            with self._span(f"deliver {delivery.type}", parent, self._trace.SpanKind.PRODUCER) as span:
                headers: dict[str, str] = {}
                self._propagator.inject(headers)
                response = await send(msgspec.structs.replace(target, headers={**target.headers, **headers}))
                span.set_attribute("stoa.store.id", delivery.store_id)
                span.set_attribute("stoa.webhook.id", delivery.webhook_id)
                span.set_attribute("stoa.event.id", delivery.id)
                span.set_attribute("stoa.event.type", delivery.type)
                span.set_attribute("stoa.attempt", delivery.attempt_count + 1)
                if response.status is not None:
                    span.set_attribute("http.response.status_code", response.status)
                if response.status is None or response.status >= _FAILED:
                    span.set_attribute("error.type", str(response.status or (response.error or "").partition(":")[0]))
                    self._fail(span)
                return response

        return deliver

    async def _cause(self, db: Executor, delivery: PendingDelivery) -> "Context":
        """The span of the request that caused an event, if its id names one; an event of other work begins a trace."""
        request_id = await REQUEST_OF_EVENT.maybe(db, delivery.store_id, delivery.id, delivery.routed_at.date())
        found = _REQUEST_ID.match(request_id or "")
        carrier: dict[str, str] = {"traceparent": f"00-{found[1]}-{found[2]}-{found[3]}"} if found else {}
        return self._propagator.extract(carrier)

    def _span(self, name: str, parent: "Context", kind: "SpanKind") -> "AbstractContextManager[Span]":
        """A span that does not record exceptions: their messages may contain personal data."""
        return self._tracer.start_as_current_span(
            name, parent, kind, record_exception=False, set_status_on_exception=False
        )

    def _fail(self, span: "Span") -> None:
        span.set_status(self._trace.StatusCode.ERROR)


def _exporting(endpoint: str) -> "SpanProcessor":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    return BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint.rstrip("/") + _TRACES))


@lru_cache(maxsize=1_000)
def summary(sql: str) -> str:
    """The verb of a statement and the first relation or function that it names."""
    verb, relation = _FIRST_WORD.match(sql), _RELATION.search(sql)
    return " ".join(found[1] for found in (verb, relation) if found) or "statement"
