"""The audit log to look at: who did what, when and in which request, and whether it is still as it was written."""

from typing import Any

import msgspec

from stoa.access import audit
from stoa.portal.imports import before
from stoa.portal.pages import Pages, View, Who
from stoa.portal.queries import PEOPLE_OF_STORE
from stoa.portal.visit import Visit

pages = Pages()
_ROWS = 30
_MOST_VERIFIED = 5_000  # longer chains are walked when somebody asks for it


class Line(msgspec.Struct):
    """An entry in words."""

    position: int
    what: str
    who: str
    subject: str
    detail: dict[str, str]
    request_id: str
    at: Any


@pages.page("/stores/{handle}/audit", under="list_stores")
async def store_audit(visit: Visit) -> View:
    people = {person.id: person.name for person in await PEOPLE_OF_STORE.all(visit.db, visit.store.id)}
    return View("stores/audit.html", await _log(visit, visit.store.id, people))


@pages.page("/operators/audit", who=Who.OPERATOR)
async def operator_audit(visit: Visit) -> View:
    return View("operators/audit.html", await _log(visit, audit.SERVICE, {}))


async def _log(visit: Visit, chain: int, people: dict[int, str]) -> dict[str, Any]:
    head = await audit.head(visit.db, chain)
    end = min(before(visit), head.position + 1)
    # Positions have no gaps, so the page that ends here begins there.
    begin = max(0, end - 1 - _ROWS)
    found = [entry for entry in await audit.FORWARDS.all(visit.db, chain, begin, _ROWS) if entry.position < end]
    verified = head.position <= _MOST_VERIFIED or visit.query("verify") == "now"
    return {
        "entries": [_line(visit, entry, people) for entry in reversed(found)],
        "total": head.position,
        "next": begin + 1 if begin else 0,
        "verified": verified,
        "first_bad": await audit.verify(visit.db, chain) if verified else None,
        "note": f"{head.position}:{head.seal.hex()}",
    }


def _line(visit: Visit, entry: audit.Entry, people: dict[int, str]) -> Line:
    detail: dict[str, Any] = msgspec.json.decode(entry.detail)
    return Line(
        entry.position,
        entry.action.replace(".", " ").replace("_", " ").capitalize(),
        _who(visit, entry.actor, people),
        entry.subject,
        {name.replace("_", " "): _text(value) for name, value in detail.items() if value not in (None, [], "")},
        entry.request_id,
        entry.created_at,
    )


def _who(visit: Visit, actor: str, people: dict[int, str]) -> str:
    """Whoever did it, by name where it is somebody of this store."""
    kind, _, name = actor.partition(":")
    if kind != "account" or not name.isdigit():
        return actor.replace(":", " ").capitalize()
    if int(name) == visit.me.account_id:
        return "You"
    return people.get(int(name), f"Account {name}")


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(each) for each in value)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
