"""Audit log pages: who did what, when and in which request, with a check of the hash chain."""

from typing import Any

import msgspec

from stoa.access import audit
from stoa.portal.list_view import before
from stoa.portal.pages import Audience, Pages, View
from stoa.portal.queries import ACCOUNT_NAMES
from stoa.portal.visit import Visit

pages = Pages()
_PAGE_SIZE = 30
_ACCOUNT = "account:"
_MAX_AUTO_VERIFIED = 5_000  # longer chains are verified on request


class LogEntry(msgspec.Struct):
    """An audit entry in display form."""

    action: str
    actor: str
    subject: str
    detail: dict[str, str]
    request_id: str
    at: Any


@pages.page("/stores/{handle}/audit", nav="list_stores")
async def store_audit(visit: Visit) -> View:
    return View("stores/audit.html", await _log(visit, visit.store.id))


@pages.page("/operators/audit", audience=Audience.OPERATOR)
async def operator_audit(visit: Visit) -> View:
    return View("operators/audit.html", await _log(visit, audit.SERVICE))


async def _log(visit: Visit, chain: int | None) -> dict[str, Any]:
    head = await audit.head(visit.db, chain)
    end = min(before(visit), head.position + 1)
    # Positions have no gaps, so the start of the page follows from its end.
    start = max(0, end - 1 - _PAGE_SIZE)
    found = [entry for entry in await audit.page(visit.db, chain, start, _PAGE_SIZE) if entry.position < end]
    words = {word for entry in found for word in (entry.actor, entry.subject)}
    accounts = [word.removeprefix(_ACCOUNT) for word in words if word.startswith(_ACCOUNT)]
    numbers = [number for number in accounts if number.isdigit()]
    names = {each.id: each.name for each in await ACCOUNT_NAMES.all(visit.db, numbers)}
    verified = head.position <= _MAX_AUTO_VERIFIED or visit.query("verify") == "now"
    return {
        "entries": [_log_entry(visit, entry, names) for entry in reversed(found)],
        "total": head.position,
        "next": start + 1 if start else 0,
        "verified": verified,
        "first_invalid": await audit.verify(visit.db, chain) if verified else None,
        "checkpoint": f"{head.position}:{head.seal.hex()}",
    }


def _log_entry(visit: Visit, entry: audit.Entry, names: dict[int, str]) -> LogEntry:
    detail: dict[str, Any] = msgspec.json.decode(entry.detail)
    return LogEntry(
        entry.action.replace(".", " ").replace("_", " ").capitalize(),
        _person(visit, entry.actor, names) or entry.actor.replace(":", " ").capitalize(),
        _person(visit, entry.subject, names) or entry.subject,
        {name.replace("_", " "): _text(value) for name, value in detail.items() if value not in (None, [], "")},
        entry.request_id,
        entry.created_at,
    )


def _person(visit: Visit, word: str, names: dict[int, str]) -> str:
    """Return the name of an account; empty if the word does not name an account."""
    number = word.removeprefix(_ACCOUNT)
    if number == word or not number.isdigit():
        return ""
    if int(number) == visit.me.account_id:
        return "You"
    return names.get(int(number), f"Account {number}")


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(each) for each in value)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
