"""The audit logs for operators: that of the service, of one store, or all of them in the order of time; also as a file."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import StreamingResponse

from stoa.access import audit
from stoa.access.addresses import is_handle
from stoa.access.contract import NoSuchApp, NoSuchStore
from stoa.access.operator import find_app, find_store
from stoa.portal.kit.audit_log import (
    ACCOUNT,
    APP,
    PAGE_SIZE,
    LogEntry,
    action_title,
    chain_page,
    conditions,
    given_filters,
    shown_entries,
)
from stoa.portal.kit.csv_file import csv_response
from stoa.portal.kit.list_view import NEWEST_NUMBER, before
from stoa.portal.kit.pages import ROOT, Audience, Pages, View
from stoa.portal.kit.visit import Visit
from stoa.portal.operators.queries import ACCOUNT_NUMBER

pages = Pages()
_OPERATORS = f"{ROOT}/operators"
_NOBODY = "account:none"  # the actor of no entry
_EPOCH, _LAST_DAY = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
_LATEST_US = 10**17  # a later cursor would not be a date
_EXPORTED_AT_ONCE = 500
_COLUMNS = ("time", "log", "position", "action", "actor", "subject", "request_id", "detail")


class Search(msgspec.Struct):
    """What the filters of the URL ask for, in one chain or in all of them."""

    filters: dict[str, str]
    where: audit.Conditions
    chain: int | None = audit.SERVICE
    everywhere: bool = False
    fault: str = ""


@pages.page("/operators/audit", audience=Audience.OPERATOR)
async def operator_audit(visit: Visit) -> View:
    search = await _search(visit)
    log = await (_everywhere(visit, search) if search.everywhere else _of_chain(visit, search))
    actions = [(each, action_title(each)) for each in await audit.ALL_ACTIONS.all(visit.everywhere)]
    context = {"actions": actions, "fault": search.fault, "everywhere": search.everywhere}
    return View("operators/audit.html", {**log, **context})


@pages.form("/operators/audit/export", on=operator_audit)
async def export_audit(visit: Visit) -> StreamingResponse:
    """Stream all entries that the filters find, after the log has the name of the operator."""
    search = await _search(visit)
    async with visit.directory.transaction() as db:
        await visit.by.record(db, audit.SERVICE, "audit.exported", "audit:log", filters=sorted(search.filters))
    return csv_response("audit-log", _COLUMNS, _exported(visit, search))


async def _search(visit: Visit) -> Search:
    filters = given_filters(visit, "person", "action", "app", "store", "log")
    actor, app, chain, fault = "", "", audit.SERVICE, ""
    if person := filters.get("person"):
        account_id = await ACCOUNT_NUMBER.maybe(visit.db, person)
        actor, fault = (
            (f"{ACCOUNT}{account_id}", "") if account_id else (_NOBODY, "No account has this email or number.")
        )
    if "app" in filters:
        try:
            app = f"{APP}{(await find_app(visit.db, filters['app'])).id}"
        except NoSuchApp:
            app, fault = _NOBODY, "No app has this ID."
    if "store" in filters:
        handle = filters["store"] if is_handle(filters["store"]) else ""
        await visit.open(handle)
        try:
            chain = (await find_store(visit.db, handle)).id
        except NoSuchStore:
            actor, fault = _NOBODY, "No store has this handle."
    if not app and actor != _NOBODY:  # what a person did, and what was done to them
        actor, app = "", actor
    everywhere = filters.get("log") == "all" and "store" not in filters
    return Search(filters, conditions(filters, actor, app, UTC), chain, everywhere, fault)


async def _of_chain(visit: Visit, search: Search) -> dict[str, Any]:
    log = await chain_page(visit, search.chain, search.where, search.filters)
    entries: list[LogEntry] = log["entries"]
    for entry in entries:
        _link(entry, search.filters.get("store", ""))
    return log


async def _everywhere(visit: Visit, search: Search) -> dict[str, Any]:
    """Return one page of the entries of all logs. Pages follow each other by time; the logs are not verified here."""
    number = before(visit)
    end = _EPOCH + timedelta(microseconds=number) if number < _LATEST_US else _LAST_DAY
    found = await audit.found_everywhere(visit.everywhere, search.where, end, PAGE_SIZE + 1)
    more = len(found) > PAGE_SIZE
    found = found[:PAGE_SIZE]
    entries = await shown_entries(visit, found)
    for entry, row in zip(entries, found, strict=True):
        entry.store = row.store or "Service"
        _link(entry, row.store)
    last = (found[-1].created_at - _EPOCH) // timedelta(microseconds=1) if found else 0
    return {
        "entries": entries,
        "filters": search.filters,
        "total": 0,
        "older": f"?{urlencode({**search.filters, 'before': last})}" if more else "",
        "verified": False,
        "first_invalid": None,
    }


def _link(entry: LogEntry, store: str) -> None:
    """Add the pages of what an entry names."""
    entry.actor_url, entry.subject_url = _page_of(entry.named[0], store), _page_of(entry.named[1], store)
    entry.store_url = f"{_OPERATORS}/stores/{store}" if store else ""


def _page_of(word: str, store: str) -> str:
    """The page of an actor or a subject, such as app:7; empty if operators have none for it."""
    kind, _, name = word.partition(":")
    numbered = {"account": "accounts", "app": "apps", "mail": "outbox"}
    if kind in numbered and name.isascii() and name.isdigit():
        return f"{_OPERATORS}/{numbered[kind]}/{name}"
    if kind == "store" and store:
        return f"{_OPERATORS}/stores/{store}"
    return {"announcement": f"{_OPERATORS}/announcements", "invitation": f"{_OPERATORS}/invite"}.get(
        kind if not store else "", ""
    )


async def _exported(visit: Visit, search: Search) -> AsyncIterator[Sequence[Sequence[Any]]]:
    """All entries that the search finds, newest first, a page at a time; none that is written meanwhile."""
    name = search.filters.get("store", "")
    position, end = NEWEST_NUMBER, _LAST_DAY
    shown: set[tuple[str, int]] = set()  # entries at the moment with which the page before ended
    while True:
        if search.everywhere:
            found = await audit.found_everywhere(visit.everywhere, search.where, end, _EXPORTED_AT_ONCE)
            rows = [(each.store, each) for each in found if (each.store, each.position) not in shown]
        else:
            rows = [
                (name, each)
                for each in await audit.found(visit.db, search.chain, search.where, position, _EXPORTED_AT_ONCE)
            ]
        if not rows:
            return
        yield [
            (each.created_at, log or "service", each.position, each.action, each.actor, each.subject, each.request_id,
             each.detail)
            for log, each in rows
        ]  # fmt: skip
        last = rows[-1][1]
        # Two chains can have an entry in one microsecond, so the next page begins with the last one of this page.
        shown = {(log, each.position) for log, each in rows if each.created_at == last.created_at}
        position, end = last.position, last.created_at + timedelta(microseconds=1)
