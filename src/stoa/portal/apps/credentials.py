"""The credentials of an app: its secrets, its public keys, and the tokens that were issued with them."""

from typing import Annotated

import msgspec

from stoa.access import app_keys
from stoa.access import apps as access_apps
from stoa.access.app_keys import KeyTaken, NoSuchKey, TooManyKeys
from stoa.access.grants import revoke_all_tokens
from stoa.access.operator import find_app
from stoa.access.operator_queries import INSTALLATIONS_OF_APP
from stoa.access.public_keys import MOST_CHARACTERS, InvalidKey
from stoa.accounts import ownership
from stoa.portal.apps.apps import APPS, example_store, secret_page
from stoa.portal.kit.forms import ConfirmedForm, FormError, sentence, text
from stoa.portal.kit.pages import Pages, Redirect, View
from stoa.portal.kit.visit import Visit

pages = Pages()


class RotationForm(msgspec.Struct):
    grace_hours: Annotated[int, msgspec.Meta(ge=0, le=168, extra={"message": "Select one of the options."})]


class KeyForm(msgspec.Struct):
    jwk: Annotated[
        str, text("Paste a public key as a JSON Web Key.", min_length=1, max_length=MOST_CHARACTERS, multiline=True)
    ]


class RemovalForm(msgspec.Struct):
    kid: Annotated[str, text("Reload the page.", min_length=1, max_length=128)]


@pages.page("/apps/{app_id:int}/credentials", nav="list_apps")
async def app_credentials(visit: Visit) -> View:
    app = await find_app(visit.db, visit.app.client_id)
    context = {
        "secrets": await access_apps.list_secrets(visit.by, app),
        "keys": await app_keys.list_keys(visit.by, app),
    }
    return View("apps/credentials.html", context)


@pages.form("/apps/{app_id:int}/secret", on=app_credentials)
async def rotate_secret(visit: Visit, form: RotationForm) -> View:
    secret = await access_apps.rotate_secret(visit.by, visit.app.client_id, grace_hours=form.grace_hours)
    installed = await INSTALLATIONS_OF_APP.all(visit.everywhere, visit.app.id)
    owned = {store.handle for store in await ownership.owned_stores(visit.by, visit.me.account_id)}
    handle = example_store(installed, owned)
    return secret_page(visit, secret, visit.app.name, handle=handle)


@pages.form("/apps/{app_id:int}/secret/end", on=app_credentials)
async def end_old_secret(visit: Visit) -> Redirect:
    await access_apps.end_old_secrets(visit.by, visit.app.client_id)
    return Redirect(_url(visit), "The old secret was revoked.")


@pages.form("/apps/{app_id:int}/tokens/revoke", on=app_credentials)
async def revoke_tokens(visit: Visit, form: ConfirmedForm) -> Redirect:
    count = await revoke_all_tokens(visit.by, visit.app.client_id)
    if not count:
        return Redirect(_url(visit), "There are no active access tokens.", "")
    return Redirect(_url(visit), f"{count} access token{'' if count == 1 else 's'} revoked.")


@pages.form("/apps/{app_id:int}/keys", on=app_credentials)
async def add_key(visit: Visit, form: KeyForm) -> Redirect:
    try:
        added = await app_keys.add_key(visit.by, visit.app.client_id, form.jwk)
    except (InvalidKey, KeyTaken, TooManyKeys) as refusal:
        raise FormError(jwk=sentence(refusal)) from refusal
    return Redirect(_url(visit), f"Key {added.kid} added. Your app can authenticate with it now.")


@pages.form("/apps/{app_id:int}/keys/remove", on=app_credentials)
async def remove_key(visit: Visit, form: RemovalForm) -> Redirect:
    try:
        await app_keys.remove_key(visit.by, visit.app.client_id, form.kid)
    except NoSuchKey as refusal:
        return Redirect(_url(visit), sentence(refusal), "warn")
    return Redirect(_url(visit), f"Key {form.kid} removed.")


def _url(visit: Visit) -> str:
    return f"{APPS}/{visit.app.id}/credentials"
