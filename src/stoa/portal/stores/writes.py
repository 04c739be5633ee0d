"""Writes of a person on a store's pages: an endpoint's own handler, called by the person instead of an app.

The work, its events, the key of the form and the audit entry share one transaction, as in the API.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Annotated, Any

import msgspec

from stoa.access.definitions import with_definitions
from stoa.access.queries import STORE_BY_HANDLE
from stoa.accounts.queries import CLAIM_FORM, CLAIMED_FORM
from stoa.db.query import Executor
from stoa.portal.kit.forms import RELOAD, FormError, OnceForm
from stoa.portal.kit.refusals import refusals_as_faults
from stoa.portal.kit.visit import Visit
from stoa.rest.batch import Batch
from stoa.rest.call import Call, NamedPerson, Store
from stoa.rest.endpoint import One

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}\Z", re.ASCII)
_OTHER_VALUES = "This form was already submitted with other values. Check the current state, and submit again."
UNCHANGED = object()  # the result of work that changed nothing, if the endpoint's answer does not say it
REPEATED = "This form was already submitted. Nothing was done twice."


class VersionedForm(OnceForm, kw_only=True):
    """A form that is refused if what it changes is no longer as its page showed it."""

    version: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0

    @classmethod
    def faults(cls, values: Mapping[str, Any]) -> dict[str, str]:
        return {} if values.get("version") else {"": RELOAD}


class Change(msgspec.Struct, frozen=True):
    """What a form does: the entry of the audit log, which contains no personal data, and where faults are shown."""

    action: str  # empty if the handler itself writes the entry
    subject: str
    fields: Collection[str] | Mapping[str, str] = ()
    detail: Mapping[str, Any] = {}
    replaces: bool = False  # whether the form sends stored values back, which somebody may have changed


async def store_call(visit: Visit) -> Call:
    """A call by the signed-in person; as in the API, a suspended or closed store refuses every change."""
    store: Store = await with_definitions(visit.db, await STORE_BY_HANDLE.one(visit.db, visit.store.handle), None)
    if store.status != "active":
        raise FormError({"": f"This store is {visit.store.status}. Nothing was changed."})
    call = Call(visit.db, store, NamedPerson(visit.me.account_id, visit.me.name), visit.request_id, "")
    call.autocommit, call.settings = visit.db.autocommit, visit.settings
    return call


async def carry_out(visit: Visit, form: OnceForm, change: Change, work: Callable[[Call], Awaitable[Any]]) -> bool:
    """Run an endpoint's handler once for this form; returns False if the form was carried out before."""
    if not form.key:
        raise FormError({"": RELOAD})
    call = await store_call(visit)

    async def once(db: Executor) -> bool:
        call.db = db
        # Again in each try: a step of the work may have removed it.
        call.expected = frozenset({(form.version, None)}) if isinstance(form, VersionedForm) else None
        if not await _claim(db, visit, form):
            return False
        result = await work(call)
        if change.action and _changed(result, form):
            await visit.by.record(db, call.store_id, change.action, change.subject, **change.detail)
        return True

    async with refusals_as_faults(change.fields, replaces=change.replaces):
        if not await visit.db.in_transaction(once, call.store_id):
            return False
    visit.changed_stores.add(call.store_id)
    return True


async def _claim(db: Executor, visit: Visit, form: OnceForm) -> bool:
    """Claim the form's key for this transaction; False if the same form was carried out before."""
    digest = hashlib.sha256(visit.request.scope["path"].encode() + b"\0")
    values = {name: value for name, value in msgspec.structs.asdict(form).items() if name != "key"}
    digest.update(msgspec.json.encode(values, order="deterministic"))
    names = (visit.store.id, visit.me.account_id, form.key)
    if await CLAIM_FORM.run(db, *names, digest.digest()):
        return True
    if await CLAIMED_FORM.maybe(db, *names) != digest.digest():
        raise FormError({"": _OTHER_VALUES}, status=409)
    return False


def whole(value: str) -> int | str:
    """A number as the API expects it; any other text stays, and the API refuses it."""
    return int(value) if _WHOLE.match(value) else value


def ids_in(sent: Iterable[str]) -> list[int]:
    """The ids among what was sent, each once; other texts are ignored."""
    ids = [int(each) for each in sent if each.isascii() and each.isdigit() and 0 < len(each) < 19]
    return list(dict.fromkeys(each for each in ids if each))


def show_all_faults(visit: Visit, rows: str, keys: Iterable[object]) -> None:
    """Show the fault of a row that the page does not show, such as one of a deleted variant, above the rows."""
    faults = visit.submitted.faults if visit.submitted else {}
    shown = {f"{rows}[{key}]" for key in keys}
    for name in [each for each in faults if each.startswith(f"{rows}[") and each not in shown]:
        faults.setdefault(rows, faults.pop(name))


def _changed(result: Any, form: OnceForm) -> bool:
    if result is UNCHANGED:
        return False
    if isinstance(result, Batch):
        return any(each.status != "unchanged" for each in result.results)
    return not (isinstance(result, One) and isinstance(form, VersionedForm) and result.version == form.version)
