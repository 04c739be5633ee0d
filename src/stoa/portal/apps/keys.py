"""The public keys of an app, on its page of credentials."""

from typing import Annotated

import msgspec

from stoa.access import app_keys
from stoa.access.app_keys import KeyTaken, NoSuchKey, TooManyKeys
from stoa.access.public_keys import MOST_CHARACTERS, InvalidKey
from stoa.portal.apps.apps import APPS, app_credentials
from stoa.portal.kit.dispatch import sentence
from stoa.portal.kit.forms import FormError, text
from stoa.portal.kit.pages import Pages, Redirect
from stoa.portal.kit.visit import Visit

pages = Pages()


class KeyForm(msgspec.Struct):
    jwk: Annotated[
        str, text("Paste a public key as a JSON Web Key.", min_length=1, max_length=MOST_CHARACTERS, multiline=True)
    ]


class RemovalForm(msgspec.Struct):
    kid: Annotated[str, text("Reload the page.", min_length=1, max_length=128)]


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
