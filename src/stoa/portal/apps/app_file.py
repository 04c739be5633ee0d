"""An app as a file: downloaded, and uploaded again, with the difference before it is applied."""

from collections.abc import Sequence
from typing import Annotated
from urllib.parse import quote

import msgspec

from stoa.access.contract import AccessRefused, App
from stoa.access.operator import find_app
from stoa.app_file.contract import FILE_NAME, MOST_BYTES, AppFileChanged, Change, ConfirmationRequired
from stoa.app_file.endpoint import MEDIA_TYPE
from stoa.app_file.push import push, registered, tag_of
from stoa.app_file.reading import read_file, with_lines
from stoa.app_file.writing import write_file
from stoa.portal.apps.apps import APPS
from stoa.portal.kit.forms import RELOAD, FormError, sentence, text
from stoa.portal.kit.pages import Pages, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.rest.problems import Fault, ValidationFailed, counted
from stoa.webhooks import app_callbacks

pages = Pages()
_MOST_SHOWN = 20


class ComparisonForm(msgspec.Struct):
    """The file is uploaded, or pasted into the field."""

    pasted: Annotated[str, text("Use at most 32 KB.", max_length=MOST_BYTES, multiline=True)] = ""


class ApplicationForm(msgspec.Struct):
    pasted: Annotated[str, text(RELOAD, min_length=1, max_length=MOST_BYTES, multiline=True)]
    seen: Annotated[str, text(RELOAD, min_length=1, max_length=64)]


class ShownChange(msgspec.Struct):
    """A change with its values as text."""

    key: str
    action: str
    before: str
    after: str
    consent: str


@pages.page("/apps/{app_id:int}/file", nav="list_apps")
async def app_file(visit: Visit) -> View:
    file = write_file(await registered(visit.db, await _app(visit)))
    return View("apps/app_file.html", {"file": file, "download": f"data:{MEDIA_TYPE};charset=utf-8,{quote(file)}"})


@pages.form("/apps/{app_id:int}/file", on=app_file, upload=True)
async def compare_app_file(visit: Visit, form: ComparisonForm) -> View:
    """Show what the file would change; nothing is changed yet."""
    upload = visit.upload
    given = form.pasted
    if upload is not None and not upload.empty:
        if upload.file.size > MOST_BYTES:
            raise FormError(file=f"The file may have at most {MOST_BYTES:,} bytes.")
        try:
            given = upload.path.read_bytes().decode()
        except UnicodeDecodeError as error:
            raise FormError(file="The file is not encoded in UTF-8.") from error
    if not given:
        raise FormError(file=f"Select a file, such as {FILE_NAME}, or paste its text.")
    tag = tag_of(await registered(visit.db, await _app(visit)))
    try:
        file = read_file(given, webhook_allow=visit.settings.webhook_allow)
        compared = await push(
            visit.by, visit.app.client_id, file, account_id=visit.me.account_id, dry_run=True, seen=tag
        )
    except ValidationFailed as refusal:
        raise FormError(file=_faults(with_lines(given, refusal).faults)) from refusal
    except AppFileChanged as refusal:
        raise FormError({"": refusal.detail}, status=409) from refusal
    changes = [_shown(change) for change in compared.changes]
    return View("apps/app_file_changes.html", {"changes": changes, "pasted": given, "seen": tag})


@pages.form("/apps/{app_id:int}/file/apply", on=app_file)
async def apply_app_file(visit: Visit, form: ApplicationForm) -> View | Redirect:
    """Apply the file whose difference the page has shown; the button confirms it."""
    try:
        file = read_file(form.pasted, webhook_allow=visit.settings.webhook_allow)
        pushed = await push(
            visit.by, visit.app.client_id, file, account_id=visit.me.account_id, confirmed=True, seen=form.seen
        )
    except (ValidationFailed, AppFileChanged, ConfirmationRequired) as refusal:
        return Redirect(_url(visit), f"{refusal.detail} Nothing was changed.", "warn")
    except AccessRefused as refusal:
        return Redirect(_url(visit), f"{sentence(refusal)} Nothing was changed.", "warn")
    if pushed.signing_secret is not None:
        callbacks = await app_callbacks.callbacks_of(visit.db, visit.app.id)
        shown = msgspec.structs.replace(callbacks, signing_secret=pushed.signing_secret)
        return View("apps/endpoint_secret.html", {"callbacks": shown}, secret=True)
    return Redirect(_url(visit), f"{counted(len(pushed.changes), 'change')} applied.")


async def _app(visit: Visit) -> App:
    return await find_app(visit.db, visit.app.client_id)


def _faults(faults: Sequence[Fault]) -> str:
    """The faults of a file in one message, each with its line."""
    texts = [_fault(each) for each in faults[:_MOST_SHOWN]]
    return f"{' '.join(texts)} Nothing was changed."


def _fault(fault: Fault) -> str:
    line = (fault.meta or {}).get("line")
    key = fault.pointer[1:].replace("/", ".")
    return f"{f'Line {line}: ' if line else ''}{key or 'The file'} {fault.detail}."


def _shown(change: Change) -> ShownChange:
    before, after = (
        "" if each is None else each if isinstance(each, str) else msgspec.json.encode(each).decode()
        for each in (change.before, change.after)
    )
    return ShownChange(change.key, change.action, before, after, change.consent)


def _url(visit: Visit) -> str:
    return f"{APPS}/{visit.app.id}/file"
