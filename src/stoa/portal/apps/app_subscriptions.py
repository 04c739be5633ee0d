"""The subscriptions that an app declares once for all stores: the list with its progress, and the forms."""

from collections.abc import Mapping
from typing import Any

import msgspec

from stoa.access.rules import expanded
from stoa.accounts.contract import Right
from stoa.portal.apps.apps import APPS
from stoa.portal.apps.subscriptions import FIELDS, SubscriptionForm, event_groups
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.forms import ConfirmedForm, FormError, sentence
from stoa.portal.kit.pages import Pages, Redirect, View
from stoa.portal.kit.refusals import refusals_as_faults
from stoa.portal.kit.visit import Visit
from stoa.webhooks import app_callbacks, app_subscriptions
from stoa.webhooks.app_subscriptions import AppSubscription, Declared, TooManyDeclarations

pages = Pages()


class DeclarationForm(SubscriptionForm):
    """The form of a new declaration, whose name identifies it."""

    @classmethod
    def faults(cls, values: Mapping[str, Any]) -> dict[str, str]:
        faults = super().faults(values)
        return faults if values.get("name") else {**faults, "name": "Enter a name."}


@pages.page("/apps/{app_id:int}/subscriptions", nav="list_apps")
async def app_subscriptions_page(visit: Visit) -> View:
    declared = await app_subscriptions.declared_by(visit.everywhere, visit.app.id)
    failed = {each.id: await app_subscriptions.FAILED.all(visit.db, each.id) for each in declared if each.failed_stores}
    return View("apps/app_subscriptions.html", {"declared": declared, "failed": failed})


@pages.page("/apps/{app_id:int}/new-subscription", nav="list_apps", right=Right.CHANGE)
async def new_app_subscription(visit: Visit) -> View:
    return View("apps/app_subscription.html", _context(visit, None))


@pages.form("/apps/{app_id:int}/new-subscription", on=new_app_subscription)
async def declare_subscription(visit: Visit, form: DeclarationForm) -> View | Redirect:
    if any(each.name == form.name and not each.removing for each in await _declared(visit)):
        raise FormError(name="Another subscription of the app has this name.")
    return await _save(visit, AppSubscription(form.name, form.patterns(), form.url or None, changed=form.watched()))


@pages.page("/apps/{app_id:int}/subscriptions/{declared_id:int}", nav="list_apps", right=Right.CHANGE)
async def app_subscription(visit: Visit) -> View:
    return View("apps/app_subscription.html", _context(visit, await _found(visit)))


@pages.form("/apps/{app_id:int}/subscriptions/{declared_id:int}", on=app_subscription)
async def change_declaration(visit: Visit, form: SubscriptionForm) -> View | Redirect:
    """Change what the form shows; the other settings stay as they are."""
    changes = {"url": form.url or None, "events": form.patterns(), "changed": form.watched()}
    return await _save(visit, msgspec.structs.replace((await _found(visit)).settings, **changes))


@pages.form("/apps/{app_id:int}/subscriptions/{declared_id:int}/resume", on=app_subscriptions_page)
async def resume_declaration(visit: Visit) -> Redirect:
    await app_subscriptions.resume(visit.by, visit.app.client_id, (await _found(visit)).name)
    return Redirect(_url(visit), "Stoa sends again on all stores on which the subscription was disabled.")


@pages.form("/apps/{app_id:int}/subscriptions/{declared_id:int}/remove", on=app_subscription)
async def remove_declaration(visit: Visit, form: ConfirmedForm) -> Redirect:
    await app_subscriptions.remove(visit.by, visit.app.client_id, (await _found(visit)).name)
    return Redirect(_url(visit), "The subscription is being removed from all stores.")


async def _save(visit: Visit, body: AppSubscription) -> View | Redirect:
    try:
        async with refusals_as_faults(FIELDS):
            _, secret = await app_subscriptions.declare(visit.by, visit.app.client_id, body)
    except TooManyDeclarations as refusal:
        raise FormError({"": sentence(refusal)}) from refusal
    if secret is None:
        return Redirect(_url(visit), "Saved. All stores get the change in the background.")
    callbacks = await app_callbacks.callbacks_of(visit.db, visit.app.id)
    shown = msgspec.structs.replace(callbacks, signing_secret=secret)
    return View("apps/endpoint_secret.html", {"callbacks": shown}, secret=True)


async def _declared(visit: Visit) -> list[Declared]:
    return await app_subscriptions.declared_by(visit.everywhere, visit.app.id)


async def _found(visit: Visit) -> Declared:
    wanted = visit.path_param("declared_id")
    found = next((each for each in await _declared(visit) if each.id == wanted and not each.removing), None)
    if found is None:
        raise not_found()
    return found


def _context(visit: Visit, declared: Declared | None) -> dict[str, object]:
    return {
        "declared": declared,
        "groups": event_groups(),
        "granted": expanded(visit.app.scopes),
    }


def _url(visit: Visit) -> str:
    return f"{APPS}/{visit.app.id}/subscriptions"
