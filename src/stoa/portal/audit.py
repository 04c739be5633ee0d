"""Audit log pages: who did what, when and in which request, with filters and a check of the hash chain."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from stoa.access import audit, audit_heads
from stoa.access.addresses import is_handle
from stoa.access.contract import NoSuchApp, NoSuchStore
from stoa.access.operator import find_app, find_store
from stoa.portal.list_view import before
from stoa.portal.pages import Audience, Pages, View
from stoa.portal.queries import ACCOUNT_NAMES, ACCOUNT_NUMBER, APP_NAMES, NAMES_FOR_APP, NAMES_FOR_STORE, AccountName
from stoa.portal.visit import Visit

pages = Pages()
_PAGE_SIZE = 30
_ACCOUNT, _APP = "account:", "app:"
_NOBODY = "account:none"  # the actor of no entry
_EPOCH, _LAST_DAY = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
_LATEST_US = 10**17  # a later cursor would not be a date
_DIGITS = 19
_MAX_AUTO_VERIFIED = 5_000  # longer chains are verified on request


class LogEntry(msgspec.Struct):
    """An audit entry in display form."""

    action: str
    actor: str
    subject: str
    detail: dict[str, str]
    request_id: str
    at: Any
    store: str = ""


@pages.page("/stores/{handle}/audit", nav="list_stores")
async def store_audit(visit: Visit) -> View:
    store_id = visit.store.id
    filters = _given(visit, "actor", "action", "app")
    subjects = [
        *await audit.SUBJECTS.all(visit.db, store_id, "app:%"),
        *await audit.ACTORS.all(visit.db, store_id, "app:%"),
    ]
    apps = sorted({each for each in subjects if each.removeprefix(_APP).isdigit()})
    titles = {
        f"{_APP}{each.id}": each.name for each in await APP_NAMES.all(visit.db, [each[len(_APP) :] for each in apps])
    }
    actors = await audit.ACTORS.all(visit.db, store_id, "%")
    names = await _names(visit, actors)
    context = {
        "actions": [(each, _sentence(each)) for each in await audit.ACTIONS.all(visit.db, store_id, "%")],
        "actors": [(each, titles.get(each) or _actor(visit, each, names)) for each in actors],
        "apps": [(each, titles.get(each, each)) for each in apps],
    }
    where = _conditions(filters, filters.get("actor", ""), filters.get("app", ""), _zone(visit.store.timezone))
    return View("stores/audit.html", {**context, **await _log(visit, store_id, where, filters)})


@pages.page("/apps/{app_id:int}/audit", nav="list_apps")
async def app_audit(visit: Visit) -> View:
    """The entries about an app; they are part of the chain of the service, which only operators see in full."""
    where = audit.Conditions("", "", f"{_APP}{visit.app.id}", None, None)
    found = await audit.found(visit.db, audit.SERVICE, where, before(visit), _PAGE_SIZE + 1)
    names = await _names(visit, _words(found))
    context = {
        "entries": [_log_entry(visit, entry, names) for entry in found[:_PAGE_SIZE]],
        "older": f"?before={found[_PAGE_SIZE - 1].position}" if found[_PAGE_SIZE:] else "",
    }
    return View("apps/audit.html", context)


@pages.page("/operators/audit", audience=Audience.OPERATOR)
async def operator_audit(visit: Visit) -> View:
    filters = _given(visit, "person", "action", "app", "store", "log")
    actor, app, chain, fault = "", "", audit.SERVICE, ""
    if person := filters.get("person"):
        account_id = await ACCOUNT_NUMBER.maybe(visit.db, person)
        actor, fault = (
            (f"{_ACCOUNT}{account_id}", "") if account_id else (_NOBODY, "No account has this email or number.")
        )
    if "app" in filters:
        try:
            app = f"{_APP}{(await find_app(visit.db, filters['app'])).id}"
        except NoSuchApp:
            app, fault = _NOBODY, "No app has this ID."
    if "store" in filters:
        handle = filters["store"]
        try:
            chain = (await find_store(visit.db, handle if is_handle(handle) else "")).id
        except NoSuchStore:
            actor, fault = _NOBODY, "No store has this handle."
    where = _conditions(filters, actor, app, UTC)
    everywhere = filters.get("log") == "all" and "store" not in filters
    log = await (_everywhere(visit, where, filters) if everywhere else _log(visit, chain, where, filters))
    actions = [(each, _sentence(each)) for each in await audit.ALL_ACTIONS.all(visit.db)]
    return View("operators/audit.html", {**log, "actions": actions, "fault": fault, "everywhere": everywhere})


def _given(visit: Visit, *names: str) -> dict[str, str]:
    """Return the filters of the URL."""
    return {name: value for name in (*names, "since", "until") if (value := visit.query(name).strip())}


def _conditions(filters: dict[str, str], actor: str, app: str, zone: tzinfo) -> audit.Conditions:
    """Return the conditions of the filters; both days are included."""
    since, until = _day(filters.get("since", ""), zone), _day(filters.get("until", ""), zone)
    return audit.Conditions(actor, filters.get("action", ""), app, since, until and until + timedelta(days=1))


def _day(value: str, zone: tzinfo) -> datetime | None:
    try:
        day = datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=zone)
    except ValueError:
        return None
    return day if 2000 <= day.year <= 9000 else None


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):  # the machine lacks the zone
        return UTC


async def _everywhere(visit: Visit, where: audit.Conditions, filters: dict[str, str]) -> dict[str, Any]:
    """Return one page of the entries of all logs. Pages follow each other by time; the logs are not verified here."""
    number = before(visit)
    end = _EPOCH + timedelta(microseconds=number) if number < _LATEST_US else _LAST_DAY
    found = await audit.found_everywhere(visit.db, where, end, _PAGE_SIZE + 1)
    more = len(found) > _PAGE_SIZE
    found = found[:_PAGE_SIZE]
    names = await _names(visit, _words(found))
    last = (found[-1].created_at - _EPOCH) // timedelta(microseconds=1) if found else 0
    return {
        "entries": [_log_entry(visit, entry, names, entry.store or "Service") for entry in found],
        "filters": filters,
        "total": 0,
        "older": f"?{urlencode({**filters, 'before': last})}" if more else "",
        "verified": False,
        "first_invalid": None,
    }


async def _log(visit: Visit, chain: int | None, where: audit.Conditions, filters: dict[str, str]) -> dict[str, Any]:
    head = await audit.head(visit.db, chain)
    found = await audit.found(visit.db, chain, where, before(visit), _PAGE_SIZE + 1)
    more = len(found) > _PAGE_SIZE
    found = found[:_PAGE_SIZE]
    names = await _names(visit, _words(found))
    verified = head.position <= _MAX_AUTO_VERIFIED or visit.query("verify") == "now"
    return {
        "entries": [_log_entry(visit, entry, names) for entry in found],
        "filters": filters,
        "total": head.position,
        "older": f"?{urlencode({**filters, 'before': found[-1].position})}" if more else "",
        "verified": verified,
        "first_invalid": (await audit_heads.verify(visit.db, visit.by.key, chain)).first_bad if verified else None,
        "checkpoint": f"{head.position}:{head.seal.hex()}",
    }


def _words(entries: Sequence[audit.Entry]) -> list[str]:
    """Return the words of entries that may name an account."""
    details = [value for entry in entries for value in msgspec.json.decode(entry.detail, type=dict[str, Any]).values()]
    words = [word for entry in entries for word in (entry.actor, entry.subject)]
    return words + [value for value in details if isinstance(value, str)]


async def _names(visit: Visit, words: Sequence[str]) -> dict[int, str]:
    """Return the names of the accounts among the words; on the page of a team, with what else explains them."""
    accounts = {word.removeprefix(_ACCOUNT) for word in words if word.startswith(_ACCOUNT)}
    numbers = [number for number in accounts if number.isascii() and number.isdigit() and len(number) < _DIGITS]
    if hasattr(visit, "store"):
        found = await NAMES_FOR_STORE.all(visit.db, numbers, visit.store.id)
    elif hasattr(visit, "app"):
        found = await NAMES_FOR_APP.all(visit.db, numbers, visit.app.id)
    else:
        found = await ACCOUNT_NAMES.all(visit.db, numbers)
    return {each.id: _label(each) for each in found}


def _label(account: AccountName) -> str:
    """A team learns that an operator acted, and that a person is not one of them, or no longer; never an email address."""
    if account.member:
        return account.name
    return f"Operator {account.name}" if account.operator else f"{account.name} (not in the team)"


def _log_entry(visit: Visit, entry: audit.Entry, names: dict[int, str], store: str = "") -> LogEntry:
    detail: dict[str, Any] = msgspec.json.decode(entry.detail)
    return LogEntry(
        _sentence(entry.action),
        _actor(visit, entry.actor, names),
        _person(visit, entry.subject, names) or entry.subject,
        {
            name.replace("_", " "): _person(visit, str(value), names) or _text(value)
            for name, value in detail.items()
            if value not in (None, [], "")
        },
        entry.request_id,
        entry.created_at,
        store,
    )


def _sentence(action: str) -> str:
    return action.replace(".", " ").replace("_", " ").capitalize()


def _actor(visit: Visit, actor: str, names: dict[int, str]) -> str:
    return _person(visit, actor, names) or actor.replace(":", " ").capitalize()


def _person(visit: Visit, word: str, names: dict[int, str]) -> str:
    """Return the name of an account; empty if the word does not name an account."""
    number = word.removeprefix(_ACCOUNT)
    if number == word or not (number.isascii() and number.isdigit()):
        return ""
    if int(number) == visit.me.account_id:
        return "You"
    return names.get(int(number), f"Account {number}")


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(each) for each in value)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
