"""The handlers of imports: uploads, progress and reports."""

import asyncio
import re
import time
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from stoa.imports import queries, reports
from stoa.imports.contract import (
    MISSING,
    Gone,
    Import,
    Options,
    ReportNotVisible,
    TooManyImports,
    TooManyRows,
    parameters,
)
from stoa.imports.customers import CUSTOMERS
from stoa.imports.examples import CUSTOMER_FILE, PRODUCT_FILE
from stoa.imports.importable import Importable, Task
from stoa.imports.jobs import document_for, new_import_id, start_import
from stoa.imports.products import PRODUCTS
from stoa.imports.queries import Job
from stoa.products.bodies import NewProduct
from stoa.rest.call import Call
from stoa.rest.endpoint import Accepted, One, Routes, Stream, Upload
from stoa.rest.headers import CSV, JSON, NDJSON
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
    rows=NewProduct,
    example=PRODUCT_FILE,
    parameters={**parameters(PRODUCTS.match_by), "missing": MISSING},
    errors=REFUSALS,
    longest_wait_s=LONGEST_WAIT_S,
)
async def create_product_import(call: Call, body: Upload) -> Accepted[Import]:
    """Import products from a file.

    Each row of the file is a merge patch of the product that it identifies, and is applied exactly once. The guide on
    imports describes each column.

    - **Formats.** NDJSON (one product on each line, with nested variants), CSV (with a header row and columns such as
      `option.Color` and `metadata.tier`), or JSON `{"items":[...]}` with at most 1,000 items. gzip is accepted.
    - **Limits.** A file has at most 100,000 rows and 100 MB.
    - **Stock.** Rows with `stock` also require `inventory:write`, and set it at the location that `location` beside it
      names, otherwise the total of all locations.
    - **Result.** The response is sent when the file is stored; send `Prefer: wait=10` to wait up to 10 seconds for the
      result.
    """
    return await accept(call, PRODUCTS, body)


@routes.get("/products/imports/{import_id}", scope="products:read", produces=REPORTS, errors=[Gone, ReportNotVisible])
async def get_product_import(call: Call, import_id: str) -> One[Import]:
    """Get the progress of an import, or its report.

    Only the app that made the import can read its rows; other apps get the job without the errors of rows. Reports are
    kept for 30 days.

    - JSON returns the job with its counts and first errors.
    - `Accept: application/x-ndjson` returns the report on every row.
    - `Accept: text/csv` returns the failed rows with two more columns that describe the errors: correct the rows and
      upload the file again.
    """
    return await import_response(call, PRODUCTS, import_id)


@customer_routes.post(
    "/customers/imports",
    scope="customers:write",
    uploads=UPLOADS,
    example=CUSTOMER_FILE,
    parameters=parameters(CUSTOMERS.match_by),
    errors=REFUSALS,
    longest_wait_s=LONGEST_WAIT_S,
)
async def create_customer_import(call: Call, body: Upload) -> Accepted[Import]:
    """Import customers from a file.

    Each row of the file is a merge patch of the customer that it identifies, and is applied exactly once. The guide on
    customers describes each column.

    - **Formats.** NDJSON (one customer on each line, with nested addresses), CSV (with a header row and columns such
      as `address.city` and `metadata.tier`), or JSON `{"items":[...]}` with at most 1,000 items. gzip is accepted.
    - **Limits.** A file has at most 100,000 rows and 100 MB.
    - **Result.** The response is sent when the file is stored; send `Prefer: wait=10` to wait up to 10 seconds for the
      result.
    """
    return await accept(call, CUSTOMERS, body)


@customer_routes.get(
    "/customers/imports/{import_id}", scope="customers:read", produces=REPORTS, errors=[Gone, ReportNotVisible]
)
async def get_customer_import(call: Call, import_id: str) -> One[Import]:
    """Get the progress of an import of customers, or its report.

    Only the app that made the import can read its rows; other apps get the job without the errors of rows. Reports are
    kept for 30 days. The data of an erased customer is removed from them.

    - JSON returns the job with its counts and first errors.
    - `Accept: application/x-ndjson` returns the report on every row.
    - `Accept: text/csv` returns the failed rows with two more columns that describe the errors: correct the rows and
      upload the file again.
    """
    return await import_response(call, CUSTOMERS, import_id)


async def accept(call: Call, of: Importable, body: Upload) -> Accepted[Import]:
    """Store the file and enqueue its job."""
    _check_charset(call.headers)
    options = msgspec.convert({"match_by": of.match_by[0], **call.parameters}, Options)
    task = Task(call.store, new_import_id(), call.caller.app_id, call.request_id, options, call.caller.scopes)
    job = await start_import(call.db, task, of, body.file, body.media)
    path = f"/{of.resource}/imports/{job.id}"
    seconds = preferred_wait(call.headers)

    async def settled() -> One[Any] | None:
        return await _finished(call, job, seconds)

    return Accepted(
        await document_for(call.caller.app_id, call.db, job), job.version, path, settled if seconds else None
    )


async def import_response(call: Call, of: Importable, import_id: str) -> One[Import]:
    """The job, or its report in the requested media type."""
    known = _ID.match(import_id)
    job = await queries.GET.maybe(call.db, call.store_id, of.resource, import_id) if known else None
    if job is None:
        raise NotFound("There is no import with this id.")
    if job.gone:
        raise Gone("Reports are kept for 30 days.")
    if call.accepted == JSON:
        return One(await document_for(call.caller.app_id, call.db, job), job.version)
    if job.app_id != call.caller.app_id:
        raise ReportNotVisible("Only the app that made this import can read its rows.")
    rows = reports.every_row if call.accepted == NDJSON else reports.failed_rows
    media = call.accepted if call.accepted == NDJSON else f"{CSV}; charset=utf-8"
    # The signature declares the default media type; `produces` declares the others.
    return cast("One[Import]", Stream(media, rows(call.db, job)))


def _check_charset(headers: Mapping[bytes, bytes]) -> None:
    media = headers.get(b"content-type", b"").lower().replace(b" ", b"").replace(b'"', b"")
    _, named, charset = media.partition(b"charset=")
    if named and charset.split(b";")[0] not in (b"utf-8", b"utf8", b"us-ascii"):
        raise UnsupportedMediaType("Send the file in UTF-8.")


def preferred_wait(headers: Mapping[bytes, bytes]) -> int:
    """The seconds of `Prefer: wait` (RFC 7240), limited to the longest allowed wait."""
    found = _WAIT.search(headers.get(b"prefer", b"").lower())
    return min(int(found[1]), LONGEST_WAIT_S) if found else 0


async def _finished(call: Call, job: Job, seconds: float) -> One[Any] | None:
    """The finished job, or None if it takes longer."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        await asyncio.sleep(LOOK_EVERY_S)
        now = await queries.GET.one(call.db, job.store_id, job.resource, job.id)
        if now.finished_at is not None:
            return One(await document_for(call.caller.app_id, call.db, now), now.version)
    return None
