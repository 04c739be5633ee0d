"""Traces by OpenTelemetry: from the caller through the request and its statements to the receiver of the webhook."""

import asyncio
import importlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.operations.tracing import Tracing, summary
from stoa.settings import Settings, WrongSetting, load
from tests.support.receivers import Receiver
from tests.support.shops import open_shop
from tests.webhooks.workers import create_product, subscribe, working

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
# Imports what a web worker and a background worker import, and fails if the extra is missing but wanted.
WITHOUT_EXTRA = """
import sys
import stoa.app, stoa.worker
assert not [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"], "imported for nothing"
sys.modules["opentelemetry"] = None
from stoa.settings import WrongSetting, load
from stoa.operations.tracing import check_extra
check_extra(load({}))
try:
    check_extra(load({"STOA_OTLP_ENDPOINT": "http://127.0.0.1:4318"}))
except WrongSetting as error:
    print(error)
"""


def sdk() -> Any:
    """The parts of the optional library that the tests use."""
    reason = "the extra is not installed: pip install --require-hashes -r requirements/otel.lock"
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason=reason)
    export: Any = importlib.import_module("opentelemetry.sdk.trace.export")
    memory: Any = importlib.import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    return export, memory.InMemorySpanExporter


def texts(spans: Sequence[Any]) -> str:
    """Everything that the spans say, for searching."""
    return " ".join(
        f"{span.name} {dict(span.attributes)} {[event.attributes for event in span.events]}" for span in spans
    )


async def test_a_trace_goes_from_the_caller_to_the_receiver_of_the_webhook(settings: Settings, db: Database) -> None:
    export, memory = sdk()
    exporter = memory()
    tracing = Tracing(settings, "web", export.SimpleSpanProcessor(exporter))
    application = Application(settings, tracing=tracing)
    shop = await open_shop(application, db)
    try:
        async with Receiver() as receiver, working(settings) as worker:
            worker.scheduler.shared.trace = tracing.deliveries(db)
            await subscribe(shop, receiver.url, "customer.created", headers={"X-Shop": "mine"})
            exporter.clear()
            person = {"email": "ada.lovelace@example.com", "first_name": "Canaria"}
            made = await shop.client.post("/customers", json=person, headers=TRACEPARENT)
            [sent] = await receiver.until(1)
            await asyncio.sleep(0.1)  # the span of the delivery ends after the response
        spans = [span for span in exporter.get_finished_spans() if f"{span.context.trace_id:032x}" == TRACE]
        [request] = [span for span in spans if span.kind.name == "SERVER"]
        [delivery] = [span for span in spans if span.kind.name == "PRODUCER"]
        statements = [span for span in spans if span.kind.name == "CLIENT"]
        assert (request.name, f"{request.parent.span_id:016x}") == ("POST create_customer", CALLER)
        assert request.attributes["http.response.status_code"] == made.status_code == 201
        assert request.attributes["stoa.store.id"] == shop.store_id
        assert made.headers["x-request-id"] == f"req_{TRACE}-{request.context.span_id:016x}-01"
        assert {"BEGIN", "COMMIT"} <= {span.name for span in statements}
        assert {span.parent.span_id for span in statements} == {request.context.span_id}
        assert all("db.query.text" in span.attributes for span in statements)
        assert delivery.parent.span_id == request.context.span_id
        assert delivery.attributes["stoa.event.type"] == "customer.created"
        assert sent.headers["traceparent"] == f"00-{TRACE}-{delivery.context.span_id:016x}-01"
        assert sent.headers["x-shop"] == "mine"
        assert not [word for word in ("lovelace", "canaria", shop.token) if word in texts(spans).lower()]
    finally:
        await shop.client.aclose()
        await application.close()


async def test_spans_reach_a_collector_and_a_refusal_is_named_by_its_code(settings: Settings, db: Database) -> None:
    sdk()
    messages: Any = importlib.import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    async with Receiver() as collector:
        endpoint = collector.url.removesuffix("/hook")
        application = Application(msgspec.structs.replace(settings, otlp_endpoint=endpoint))
        shop = await open_shop(application, db)
        try:
            await create_product(shop)
            assert (await shop.client.get("/products/999999999", headers={"x-request-id": "mine"})).status_code == 404
        finally:
            await shop.client.aclose()
            await application.close()
    found: dict[str, dict[str, str]] = {}
    for received in collector.received:
        for resource in messages.ExportTraceServiceRequest.FromString(received.body).resource_spans:
            named = {each.key: each.value.string_value for each in resource.resource.attributes}
            assert (named["service.name"], named["stoa.process"]) == ("stoa", "web")
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                found[span.name] = {each.key: each.value.string_value for each in span.attributes}
    assert found["POST create_product"]["stoa.operation"] == "create_product"
    assert found["GET get_product"]["error.type"] == "not_found"


def test_nothing_is_imported_without_an_endpoint_and_an_endpoint_needs_the_extra() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRA], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (
        0,
        "STOA_OTLP_ENDPOINT needs the OpenTelemetry libraries: pip install 'stoa-commerce[otel]'",
    ), done.stderr
    with pytest.raises(WrongSetting, match="must begin with"):
        load({"STOA_OTLP_ENDPOINT": "127.0.0.1:4318"})


def test_a_statement_is_named_by_its_verb_and_what_it_reads() -> None:
    assert summary("SELECT granted FROM take_tokens($1)") == "SELECT take_tokens"
    assert summary("\n UPDATE orders SET number = $1") == "UPDATE orders"
    assert summary("BEGIN") == "BEGIN"
