"""What happens when a file is sent in, and when somebody asks how far it is."""

import asyncio
import re
import time
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from stoa.db.query import Executor
from stoa.imports import queries, reports
from stoa.imports.contract import (
    CSV,
    JSON,
    MISSING,
    NDJSON,
    Gone,
    Import,
    Options,
    TooManyImports,
    TooManyRows,
    parameters,
)
from stoa.imports.customers import CUSTOMERS
from stoa.imports.importable import Importable, Task
from stoa.imports.jobs import document_of, new_import_id, start_import
from stoa.imports.products import PRODUCTS
from stoa.imports.queries import Job
from stoa.rest.endpoint import Accepted, Call, One, Routes, Stream, Upload
from stoa.rest.problems import MalformedJson, NotFound, UnsupportedMediaType, ValidationFailed

routes, customer_routes = Routes("Products"), Routes("Customers")
UPLOADS, REPORTS = (NDJSON, CSV, JSON), (JSON, NDJSON, CSV)
REFUSALS = (MalformedJson, ValidationFailed, TooManyRows, TooManyImports)

LONGEST_WAIT_S, LOOK_EVERY_S = 20, 0.05
_ID = re.compile(r"imp_[0-9a-z]{20}\Z")
_WAIT = re.compile(rb"""(?:^|[,;])\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:$|[,;])""")


@routes.post(
    "/products/imports",
    scope="products:write",
    uploads=UPLOADS,
    parameters={**parameters(PRODUCTS.match_by), "missing": MISSING},
    errors=REFUSALS,
)
async def create_product_import(call: Call, body: Upload) -> Accepted[Import]:
    """Import products from a file.

    NDJSON (one product a line, its variants nested), CSV (a header row; `option.Color` and `metadata.tier` columns), or
    JSON `{"items":[...]}` with at most 1,000 items; gzip is welcome. At most 100,000 rows and 100 MB. Each row is a merge
    patch of the product that it names, and is carried out exactly once. The answer comes when the file is safely kept;
    send `Prefer: wait=10` to wait that many seconds for the end. The guide on imports tells what each column means.
    """
    return await accept(call, PRODUCTS, body)


@routes.get("/products/imports/{import_id}", scope="products:read", produces=REPORTS, errors=[Gone])
async def get_product_import(call: Call, import_id: str) -> One[Import]:
    """Follow an import, or fetch its report.

    JSON is the job with its counts and first faults. `Accept: application/x-ndjson` is the report on every row,
    `Accept: text/csv` the failed rows with two more columns that say why: mend them and post the file again. Reports are
    kept for 30 days.
    """
    return await answer(call, PRODUCTS, import_id)


@customer_routes.post(
    "/customers/imports",
    scope="customers:write",
    uploads=UPLOADS,
    parameters=parameters(CUSTOMERS.match_by),
    errors=REFUSALS,
)
async def create_customer_import(call: Call, body: Upload) -> Accepted[Import]:
    """Import customers from a file.

    NDJSON (one customer a line, addresses nested), CSV (a header row; `address.city` and `metadata.tier` columns), or JSON
    `{"items":[...]}` with at most 1,000 items; gzip is welcome. At most 100,000 rows and 100 MB. Each row is a merge patch
    of the customer that it names, and is carried out exactly once. The answer comes when the file is safely kept; send
    `Prefer: wait=10` to wait that many seconds for the end. The guide on customers tells what each column means.
    """
    return await accept(call, CUSTOMERS, body)


@customer_routes.get("/customers/imports/{import_id}", scope="customers:read", produces=REPORTS, errors=[Gone])
async def get_customer_import(call: Call, import_id: str) -> One[Import]:
    """Follow an import of customers, or fetch its report.

    JSON is the job with its counts and first faults. `Accept: application/x-ndjson` is the report on every row,
    `Accept: text/csv` the failed rows with two more columns that say why: mend them and post the file again. Reports are
    kept for 30 days; of a customer that is erased, they keep nothing.
    """
    return await answer(call, CUSTOMERS, import_id)


async def accept(call: Call, of: Importable, body: Upload) -> Accepted[Import]:
    """Keep the file and put its job into the queue."""
    _check_charset(call.headers)
    options = msgspec.convert({"match_by": of.match_by[0], **call.parameters}, Options)
    task = Task(call.store, new_import_id(), call.caller.app_id, call.request_id, options)
    job = await start_import(call.db, task, of, body.file, body.media)
    path = f"/{of.resource}/imports/{job.id}"
    seconds = preferred_wait(call.headers)

    async def settled() -> One[Any] | None:
        return await _finished(call.db, job, seconds)

    return Accepted(await document_of(call.db, job), job.version, path, settled if seconds else None)


async def answer(call: Call, of: Importable, import_id: str) -> One[Import]:
    """The job, or its report in the form that was asked for."""
    known = _ID.match(import_id)
    job = await queries.GET.maybe(call.db, call.store_id, of.resource, import_id) if known else None
    if job is None:
        raise NotFound("There is no import with this id.")
    if job.gone:
        raise Gone("Reports are kept for 30 days.")
    if call.accepted == JSON:
        return One(await document_of(call.db, job), job.version)
    rows = reports.every_row if call.accepted == NDJSON else reports.failed_rows
    media = call.accepted if call.accepted == NDJSON else f"{CSV}; charset=utf-8"
    # The signature names the usual form; the others are declared by `produces`.
    return cast("One[Import]", Stream(media, rows(call.db, job)))


def _check_charset(headers: Mapping[bytes, bytes]) -> None:
    media = headers.get(b"content-type", b"").lower().replace(b" ", b"").replace(b'"', b"")
    _, named, charset = media.partition(b"charset=")
    if named and charset.split(b";")[0] not in (b"utf-8", b"utf8", b"us-ascii"):
        raise UnsupportedMediaType("Send the file in UTF-8.")


def preferred_wait(headers: Mapping[bytes, bytes]) -> int:
    """The seconds of `Prefer: wait` (RFC 7240), as many of them as a request may last."""
    found = _WAIT.search(headers.get(b"prefer", b"").lower())
    return min(int(found[1]), LONGEST_WAIT_S) if found else 0


async def _finished(db: Executor, job: Job, seconds: float) -> One[Any] | None:
    """The job once it has come to its end, or None when that takes longer."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        await asyncio.sleep(LOOK_EVERY_S)
        now = await queries.GET.one(db, job.store_id, job.resource, job.id)
        if now.finished_at is not None:
            return One(await document_of(db, now), now.version)
    return None
