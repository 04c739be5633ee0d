"""Example responses and events about bulk imports: a job that is queued, and one that succeeded."""

import msgspec

from stoa.imports.contract import Counts, CustomerImportFinished, Options, ProductImportFinished
from stoa.openapi_examples.fixtures import (
    CREATED_AT,
    REQUEST_ID,
    UPDATED_AT,
    EventExample,
    Events,
    Resource,
    Responses,
    one,
    shifted,
)

IMPORT_ID, IMPORT_NUMBER = "imp_2c7w4m9k1v6x3q8t5n0b", 64
PATH_PARAMETERS = {"import_id": IMPORT_ID}


def resources() -> dict[str, Resource]:
    return {"Import": _finished("products", "sku")}


def responses() -> Responses:
    products, customers = _finished("products", "sku"), _finished("customers", "email")
    return {
        "create_product_import": one(_queued(products)),
        "create_customer_import": one(_queued(customers)),
        "get_customer_import": one(customers),
    }


def events() -> Events:
    products, customers = _finished("products", "sku"), _finished("customers", "email")
    return {
        ProductImportFinished.name: EventExample(IMPORT_NUMBER, products["version"], products),
        CustomerImportFinished.name: EventExample(IMPORT_NUMBER, customers["version"], customers),
    }


def _finished(resource: str, match_by: str) -> Resource:
    counts = Counts(total=250, processed=250, created=12, updated=238, unchanged=0, archived=0, failed=0)
    return {
        "id": IMPORT_ID,
        "resource": resource,
        "status": "succeeded",
        "options": msgspec.to_builtins(Options(match_by=match_by)),
        "counts": msgspec.to_builtins(counts),
        "progress": 1.0,
        "errors": [],
        "created_at": CREATED_AT,
        "started_at": CREATED_AT,
        "finished_at": UPDATED_AT,
        "report_expires_at": shifted(CREATED_AT, days=30),
        "request_id": REQUEST_ID,
        "version": 4,
    }


def _queued(job: Resource) -> Resource:
    counts = dict.fromkeys(Counts.__struct_fields__, 0)
    waiting = {"status": "queued", "counts": counts, "progress": 0.0, "started_at": None, "finished_at": None}
    return {**job, **waiting, "version": 1}
