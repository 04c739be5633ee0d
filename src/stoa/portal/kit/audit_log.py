"""Entries of an audit log: who did what, when and in which request, with filters and a check of the hash chain."""

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any
from urllib.parse import urlencode

import msgspec

from stoa.access import audit, audit_heads
from stoa.db.query import Query
from stoa.portal.kit.list_view import before
from stoa.portal.kit.visit import Visit

PAGE_SIZE = 30
ACCOUNT, APP = "account:", "app:"
_ACCOUNTS = ("member", "former_owner")  # the details that name accounts; others may be text that a person wrote
_DIGITS = 19
_MAX_AUTO_VERIFIED = 5_000  # longer chains are verified on request


class AccountName(msgspec.Struct):
    """An account; `member` if it is on the team whose log names it."""

    id: int
    name: str
    operator: bool
    member: bool


_NAMES = """SELECT a.id, a.name, a.operator, {} AS member FROM accounts a WHERE a.id = ANY ($1::text[]::bigint[])"""
_ACTED = "an audit log names the people who acted, also those who have left the team"
ACCOUNT_NAMES = Query(AccountName, _NAMES.format("true"), unbound=_ACTED)
NAMES_FOR_STORE = Query(
    AccountName,
    _NAMES.format("EXISTS (SELECT FROM account_stores o WHERE o.store_id = $2 AND o.account_id = a.id)"),
    unbound=_ACTED,
)
NAMES_FOR_APP = Query(
    AccountName,
    _NAMES.format("EXISTS (SELECT FROM account_apps o WHERE o.app_id = $2 AND o.account_id = a.id)"),
    unbound=_ACTED,
)


class Detail(msgspec.Struct, frozen=True):
    """A value of an entry; `before` is the one that it replaced, if the entry knows it."""

    name: str
    value: str
    before: str = ""


class LogEntry(msgspec.Struct):
    """An audit entry in display form. Operators get links to what it names."""

    action: str
    actor: str
    subject: str
    details: list[Detail]
    request_id: str
    at: Any
    named: tuple[str, str] = ("", "")  # the actor and the subject as the log names them, such as app:7
    store: str = ""
    actor_url: str = ""
    subject_url: str = ""
    store_url: str = ""


def given_filters(visit: Visit, *names: str) -> dict[str, str]:
    """Return the filters of the URL."""
    return {name: value for name in (*names, "since", "until") if (value := visit.query(name).strip())}


def conditions(filters: dict[str, str], actor: str, app: str, zone: tzinfo) -> audit.Conditions:
    """Return the conditions of the filters; both days are included."""
    since, until = _day(filters.get("since", ""), zone), _day(filters.get("until", ""), zone)
    return audit.Conditions(actor, filters.get("action", ""), app, since, until and until + timedelta(days=1))


def _day(value: str, zone: tzinfo) -> datetime | None:
    try:
        day = datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=zone)
    except ValueError:
        return None
    return day if 2000 <= day.year <= 9000 else None


async def chain_page(
    visit: Visit, chain: int | None, where: audit.Conditions, filters: dict[str, str]
) -> dict[str, Any]:
    """Return one page of a chain, newest first, and whether the chain is unbroken."""
    head = await audit.head(visit.db, chain)
    found = await audit.found(visit.db, chain, where, before(visit), PAGE_SIZE + 1)
    more = len(found) > PAGE_SIZE
    found = found[:PAGE_SIZE]
    verified = head.position <= _MAX_AUTO_VERIFIED or visit.query("verify") == "now"
    return {
        "entries": await shown_entries(visit, found),
        "filters": filters,
        "total": head.position,
        "older": f"?{urlencode({**filters, 'before': found[-1].position})}" if more else "",
        "verified": verified,
        "first_invalid": (await audit_heads.verify(visit.db, visit.by.key, chain)).first_bad if verified else None,
        "checkpoint": f"{head.position}:{head.seal.hex()}",
    }


def _words(entries: Sequence[audit.Entry]) -> list[str]:
    """Return the words of entries that may name an account."""
    details = [msgspec.json.decode(entry.detail, type=dict[str, Any]) for entry in entries]
    words = [word for entry in entries for word in (entry.actor, entry.subject)]
    return words + [str(detail[name]) for detail in details for name in _ACCOUNTS if name in detail]


async def names_of(visit: Visit, words: Sequence[str]) -> dict[int, str]:
    """Return the names of the accounts among the words; on the page of a team, with what else explains them."""
    accounts = {word.removeprefix(ACCOUNT) for word in words if word.startswith(ACCOUNT)}
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


async def shown_entries(visit: Visit, entries: Sequence[audit.Entry]) -> list[LogEntry]:
    names = await names_of(visit, _words(entries))
    return [_shown(visit, entry, names) for entry in entries]


def _shown(visit: Visit, entry: audit.Entry, names: dict[int, str]) -> LogEntry:
    def text(name: str, value: Any) -> str:
        if value in (None, [], ""):
            return ""
        return (name in _ACCOUNTS and _person(visit, str(value), names)) or _text(value)

    detail: dict[str, Any] = msgspec.json.decode(entry.detail)
    before = _before(detail)
    details = [
        Detail(name.replace("_", " "), text(name, value), text(name, before.get(name)))
        for name, value in detail.items()
    ]
    return LogEntry(
        action_title(entry.action),
        actor_title(visit, entry.actor, names),
        _person(visit, entry.subject, names) or entry.subject,
        [each for each in details if each.value or each.before],
        entry.request_id,
        entry.created_at,
        (entry.actor, entry.subject),
    )


def _before(detail: dict[str, Any]) -> dict[str, Any]:
    """Take the replaced values out of the details; an entry about a role has only the old role."""
    before = detail.pop("before", {})
    return {"role": before} if isinstance(before, str) else before


def action_title(action: str) -> str:
    return action.replace(".", " ").replace("_", " ").capitalize()


def actor_title(visit: Visit, actor: str, names: dict[int, str]) -> str:
    return _person(visit, actor, names) or actor.replace(":", " ").capitalize()


def _person(visit: Visit, word: str, names: dict[int, str]) -> str:
    """Return the name of an account; empty if the word does not name an account."""
    number = word.removeprefix(ACCOUNT)
    if number == word or not (number.isascii() and number.isdigit()):
        return ""
    if int(number) == visit.me.account_id:
        return "You"
    return names.get(int(number), f"Account {number}")


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(each) for each in value)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
