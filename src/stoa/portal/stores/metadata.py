"""The page of a store's metadata definitions: the merchant's own, and those of its apps."""

from typing import Any

import msgspec

from stoa.access.grants import list_installations
from stoa.access.queries import DEFINITIONS
from stoa.portal.kit.definition_form import CHOICES, DefinitionForm, NamedDefinitionForm, ShownDefinition, carried_out
from stoa.portal.kit.pages import ROOT, Pages, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.rest.metadata import OwnDefinitions
from stoa.store_data.definitions import define, remove

pages = Pages()


@pages.page("/stores/{handle}/metadata", nav="list_stores")
async def store_metadata(visit: Visit) -> View:
    owners = msgspec.json.decode(await DEFINITIONS.one(visit.db, visit.store.id), type=list[OwnDefinitions])
    names = {each.app_id: each.app_name for each in await list_installations(visit.by, visit.store.handle)}
    seen: set[tuple[str, str]] = set()
    shown: list[ShownDefinition] = []
    for owner in owners:
        for each in owner.definitions:
            if each.is_private:
                continue  # only its app sees the values
            named = (each.resource, each.key)
            shown.append(ShownDefinition(each, names.get(owner.app_id or 0), named not in seen))
            seen.add(named)
    context: dict[str, Any] = {"shown": shown, **CHOICES}
    return View("stores/metadata.html", context)


@pages.form("/stores/{handle}/metadata", on=store_metadata)
async def define_metadata(visit: Visit, form: DefinitionForm) -> Redirect:
    definition = form.read(of_app=False)
    await carried_out(define(visit.by, visit.store.handle, definition))
    return Redirect(_url(visit), f"{definition.key} is defined. It takes effect within a second.")


@pages.form("/stores/{handle}/metadata/remove", on=store_metadata)
async def undefine_metadata(visit: Visit, form: NamedDefinitionForm) -> Redirect:
    await carried_out(remove(visit.by, visit.store.handle, form.resource, form.definition_key))
    return Redirect(_url(visit), f"{form.definition_key} is no longer defined. Its values stay.")


def _url(visit: Visit) -> str:
    return f"{ROOT}/stores/{visit.store.handle}/metadata"
