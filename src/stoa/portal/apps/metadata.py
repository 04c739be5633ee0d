"""The page of an app's metadata definitions, which apply on every store that installs the app."""

from stoa.portal.apps.apps import APPS
from stoa.portal.kit.definition_form import CHOICES, DefinitionForm, NamedDefinitionForm, ShownDefinition, carried_out
from stoa.portal.kit.pages import Pages, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.store_data.definitions import define_of_app, definitions_of_app, remove_of_app

pages = Pages()


@pages.page("/apps/{app_id:int}/metadata", nav="list_apps")
async def app_metadata(visit: Visit) -> View:
    shown = [ShownDefinition(each) for each in await definitions_of_app(visit.db, visit.app.id)]
    return View("apps/metadata.html", {"shown": shown, **CHOICES})


@pages.form("/apps/{app_id:int}/metadata", on=app_metadata)
async def define_app_metadata(visit: Visit, form: DefinitionForm) -> Redirect:
    definition = form.read(of_app=True)
    await carried_out(define_of_app(visit.by, visit.app.client_id, definition))
    return Redirect(_url(visit), f"{definition.key} is defined on all stores of the app.")


@pages.form("/apps/{app_id:int}/metadata/remove", on=app_metadata)
async def undefine_app_metadata(visit: Visit, form: NamedDefinitionForm) -> Redirect:
    await carried_out(remove_of_app(visit.by, visit.app.client_id, form.resource, form.definition_key))
    return Redirect(_url(visit), f"{form.definition_key} is no longer defined. Its values stay.")


def _url(visit: Visit) -> str:
    return f"{APPS}/{visit.app.id}/metadata"
