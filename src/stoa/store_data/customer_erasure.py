"""Erases a customer's personal data from every table, in one explicit order."""

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from stoa.access import audit
from stoa.customers import erasure as customers
from stoa.customers.erasure import Person
from stoa.customers.events import CustomerDeleted, CustomerErased
from stoa.db.query import Executor
from stoa.events.outbox import Cause, emit
from stoa.imports import erasure as imports
from stoa.orders import erasure as orders
from stoa.rest.call import Call
from stoa.rest.endpoint import NoContent, Routes
from stoa.rest.problems import NotFound
from stoa.webhooks.delivery import erasure as deliveries

routes = Routes("Customers")


class Step(msgspec.Struct, frozen=True):
    """One part of an erasure, and the columns that it erases, by table."""

    run: Callable[[Executor, Person], Awaitable[None]]
    erases: Mapping[str, tuple[str, ...]]


# All steps run in the transaction of the erasure, while the customer is locked.
STEPS: tuple[Step, ...] = (
    Step(
        customers.erase_records,
        {
            "events": ("changes", "data", "app_views"),
            "idempotency_keys": ("body",),
            "customer_metadata": ("key", "value"),
        },
    ),
    # Deliveries come before orders: they are found by orders that still name the person.
    Step(deliveries.erase_from_deliveries, {"deliveries": ("attempts",), "pending_deliveries": ("attempts",)}),
    Step(
        imports.erase_in_imports,
        {
            "import_rows": ("key", "changes", "raw", "errors"),
            "import_parts": ("data",),
            "events": ("data", "app_views"),
        },
    ),
    Step(
        orders.erase_in_orders,
        {
            "orders": ("email", "phone", "address", "person", "lines", "head", "terms"),
            "order_comments": ("body", "changes"),
            "events": ("changes", "data"),
            "idempotency_keys": ("body",),
        },
    ),
    Step(
        customers.erase_profile,
        {
            "customers": (
                "external_id",
                "email",
                "email_key",
                "phone",
                "first_name",
                "last_name",
                "email_consent",
                "sms_consent",
                "head",
                "shown",
                "terms",
            )
        },
    ),
)

# Every other table, with the reason why an erasure leaves it alone. A test compares both lists with the schema.
_CATALOG = "describes goods, not people"
_ACCOUNT = "belongs to people who operate the service, who are not customers of a store"
_APP = "describes an app"
_FIGURES = "holds figures only"
_IDS = "refers to customers, orders and imports by id only"
NO_PERSONAL_DATA: Mapping[str, str] = {
    "account_apps": _ACCOUNT,
    "account_devices": _ACCOUNT,
    "account_links": _ACCOUNT,
    "account_recovery_codes": _ACCOUNT,
    "account_results": _ACCOUNT,
    "account_sessions": _ACCOUNT,
    "account_stores": _ACCOUNT,
    "accounts": _ACCOUNT,
    "announcement_dismissals": _ACCOUNT,
    "announcements": "holds texts of operators for everybody",
    "app_callbacks": _APP,
    "app_keys": _APP,
    "app_listings": _APP,
    "app_secrets": _APP,
    "apps": _APP,
    "audit_entries": _IDS,
    "audit_heads": _FIGURES,
    "collection_products": _CATALOG,
    "collection_revisions": _FIGURES,
    "collection_scans": _FIGURES,
    "collections": _CATALOG,
    "delivery_hours": _FIGURES,
    "deploy_tokens": _APP,
    "app_subscriptions": _APP,
    "app_subscription_failures": _APP,
    "failed_requests": "holds the operation and the error code, nothing that the caller sent; no longer written",
    "failed_attempts": "counts failed logins by client and network address for a few minutes",
    "erased_media": _FIGURES,
    "import_queue": _IDS,
    "imports": "holds options, column names and counts; the rows are in import_parts and import_rows",
    "installation_requests": _ACCOUNT,
    "installations": _APP,
    "lanes": _FIGURES,
    "locations": "describes a store",
    "media_files": _CATALOG,
    "picture_fetches": _CATALOG,
    "mails": _ACCOUNT,
    "notification_preferences": _ACCOUNT,
    "notifications": _ACCOUNT,
    "order_allocations": _FIGURES,
    "order_duplicates": _IDS,
    "order_lines": _CATALOG,
    "order_numbers": _FIGURES,
    "ownership_offers": _ACCOUNT,
    "product_terms": _CATALOG,
    "products": _CATALOG,
    "rate_buckets": _FIGURES,
    "redeliveries": _IDS,
    "request_log": "holds the operation, the ids in the path and the error codes, nothing else that the caller sent",
    "removed_installations": _APP,
    "reset_requests": _ACCOUNT,
    "row_counts": _FIGURES,
    "service_audit_entries": _IDS,
    "delivery_workers": "names the processes that deliver",
    "stream_leases": _IDS,
    "routing_leases": "names the process that routes the events of some stores",
    "schema_backfills": "describes the schema",
    "stored_functions": "describes the schema",
    "service_samples": _FIGURES,
    "service_facts": "facts about the service: the fingerprint of its key, and when it was backed up",
    "schema_migrations": "describes the schema",
    "used_assertions": "holds the digests of used client assertions for a few minutes",
    "directory_beats": _FIGURES,
    "directory_inbox": _IDS,
    "directory_outbox": "holds notifications for accounts, and names of stores, until the directory has received them",
    "move_markers": _FIGURES,
    "shard_inbox": _IDS,
    "shard_outbox": "holds entries of audit logs and names of apps, until the shards have received them",
    "store_inbox": _IDS,
    "shards": "names databases and their encrypted addresses",
    "store_moves": "describes a store",
    "store_residence": "describes a store",
    "stock_levels": _CATALOG,
    "stock_movements": _CATALOG,
    "store_closures": "describes a store",
    "store_hosts": "describes a store",
    "stores": "describes a store",
    "saved_filters": "holds names of filters and states of orders, without search words",
    "submitted_forms": "holds the keys and digests of forms",
    "team_invitations": _ACCOUNT,
    "tokens": _APP,
    "usage_days": _FIGURES,
    "usage_hours": _FIGURES,
    "variants": _CATALOG,
    "webhooks": _APP,
}


@routes.delete("/customers/{customer_id}", scope="customers:erase")
async def erase_customer(call: Call, customer_id: int) -> NoContent:
    """Erase a customer's personal data permanently.

    Removes the name, email address, phone number, addresses, consents, note, tags and metadata from every record, including past
    events, import reports and stored responses. Orders keep their totals under a customer without a name. Lists show a
    tombstone for 90 days. An erasure cannot be undone.
    """
    locked = await lock(call.db, call.store_id, customer_id)
    if locked is None:
        raise NotFound("There is no customer with this id.")
    call.check_version(locked.version)
    cause = Cause(call.app_id, call.request_id, call.person_id)
    await erase(call.db, await customers.identify(call.db, call.store_id, customer_id, locked.head, cause))
    return NoContent()


async def lock(db: Executor, store_id: int, customer_id: int) -> customers.LockedCustomer | None:
    """Lock a customer to erase it; None if there is none. Its orders are locked first, as in every other transaction."""
    await orders.HOLD.all(db, store_id, customer_id)
    return await customers.LOCK.maybe(db, store_id, customer_id)


async def erase(db: Executor, person: Person) -> None:
    """Erase a locked customer, emit `customer.deleted` and `customer.erased`, and record the erasure in the audit log."""
    for step in STEPS:
        await step.run(db, person)
    store_id, cause = person.store_id, person.cause
    tombstone = await customers.ERASED.one(db, store_id, person.customer_id)
    subject = (person.customer_id, tombstone.version)
    for event in (
        CustomerDeleted(*subject, tombstone.doc, {}),
        CustomerErased(*subject, f'{{"id":{person.customer_id}}}', {}),
    ):
        await emit(db, store_id, event, actor=cause.actor, request_id=cause.request_id)
    await audit.record(
        db,
        store_id,
        "customer.erased",
        actor=cause.audited_as,
        subject=f"customer:{person.customer_id}",
        detail={"inserted_at": tombstone.inserted_at},  # a replay after a restore recognizes the customer by it
        request_id=cause.request_id,
    )
