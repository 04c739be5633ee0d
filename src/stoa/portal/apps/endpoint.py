"""The callbacks of an app: its endpoint, the return addresses of its install links, and their signing secret."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec

from stoa.access.operator_queries import LOCK_APP
from stoa.db.fan_out import FanOut, in_order
from stoa.portal.apps.apps import APPS
from stoa.portal.apps.signing_secrets import SigningRotationForm, secret_mark
from stoa.portal.apps.subscriptions import localhost_allowed
from stoa.portal.kit.forms import FormError, sentence, text
from stoa.portal.kit.pages import ROOT, Pages, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.webhooks import app_callbacks
from stoa.webhooks.app_callbacks import Callbacks, InvalidEndpoint, InvalidReturnUrl, TooManyReturnUrls

pages = Pages()
_MAX_STORES = 50


class CallbacksForm(msgspec.Struct):
    endpoint_url: Annotated[str, text("Use a URL with at most 2048 characters.", max_length=2048)] = ""
    return_urls: Annotated[str, text("Enter one URL on each line.", max_length=6000, multiline=True)] = ""

    @classmethod
    def faults(cls, values: Mapping[str, Any]) -> dict[str, str]:
        if values.get("endpoint_url", "https://").startswith(("https://", "http://")):
            return {}
        return {"endpoint_url": "Enter a URL that starts with https://."}


class EndpointOnStore(msgspec.Struct):
    """The endpoint as a subscription of one store."""

    handle: str
    name: str
    webhook_id: int
    status: str
    failing: bool
    waiting: int
    last_attempt_at: datetime | None

    @property
    def active(self) -> bool:
        return self.status == "active"


ENDPOINT_ON_STORES = FanOut(
    EndpointOnStore,
    """SELECT s.handle, s.name, w.id AS webhook_id, w.status, l.breaker = 'open' AS failing, l.waiting, l.last_attempt_at
         FROM webhooks w JOIN lanes l ON l.store_id = w.store_id AND l.webhook_id = w.id
              JOIN stores s ON s.id = w.store_id
        WHERE w.app_id = $1 AND w.of_app AND w.ended_at IS NULL AND w.store_id <> ALL ($3::bigint[])
        ORDER BY w.status = 'active', l.breaker <> 'open', l.last_attempt_at DESC NULLS LAST, s.handle LIMIT $2""",
    in_order("active", "-failing", "-last_attempt_at", "handle", limit=2, unique=["handle"]),
    unbound="an app's developer sees its endpoint on all stores that installed the app",
)


@pages.page("/apps/{app_id:int}/endpoint", nav="list_apps")
async def app_endpoint(visit: Visit) -> View:
    callbacks = await app_callbacks.callbacks_of(visit.db, visit.app.id)
    row = await app_callbacks.GET.maybe(visit.db, visit.app.id)
    context = {
        "callbacks": callbacks,
        "seen": secret_mark(row.sealed_secret) if row else "",
        "stores": await ENDPOINT_ON_STORES.all(visit.everywhere, visit.app.id, _MAX_STORES),
        "install_link": _install_link(visit, callbacks.return_urls[0]) if callbacks.return_urls else "",
        "localhost_allowed": localhost_allowed(visit),
    }
    return View("apps/endpoint.html", context)


def _install_link(visit: Visit, return_to: str) -> str:
    query = urlencode({"scope": " ".join(visit.app.scopes), "return_to": return_to, "state": "STATE"})
    return f"{visit.origin}{ROOT}/install/{visit.app.client_id}?{query}"


@pages.form("/apps/{app_id:int}/endpoint", on=app_endpoint)
async def change_callbacks(visit: Visit, form: CallbacksForm) -> View | Redirect:
    try:
        changed = await app_callbacks.set_callbacks(
            visit.by,
            visit.app.client_id,
            endpoint_url=form.endpoint_url or None,
            return_urls=form.return_urls.split(),
        )
    except InvalidEndpoint as refusal:
        raise FormError(endpoint_url=sentence(refusal)) from refusal
    except (InvalidReturnUrl, TooManyReturnUrls) as refusal:
        raise FormError(return_urls=sentence(refusal)) from refusal
    return _secret_page(changed) if changed.signing_secret else Redirect(_url(visit), "Saved.")


@pages.form("/apps/{app_id:int}/endpoint/secret", on=app_endpoint)
async def rotate_signing_secret(visit: Visit, form: SigningRotationForm) -> View:
    async with visit.by.transaction() as joined:
        await LOCK_APP.one(joined.db, visit.app.id)
        if row := await app_callbacks.GET.maybe(joined.db, visit.app.id):
            form.check(row.sealed_secret)
        # Forced: the button also works while the previous secret is still valid.
        rotated = await app_callbacks.rotate_signing_secret(
            joined, visit.app.client_id, grace_hours=form.grace_hours, force=True
        )
    return _secret_page(rotated)


@pages.form("/apps/{app_id:int}/endpoint/resume", on=app_endpoint)
async def resume_endpoint(visit: Visit) -> Redirect:
    await app_callbacks.resume_endpoint(visit.by, visit.app.client_id)
    return Redirect(_url(visit), "Endpoint resumed on all stores.")


def _secret_page(callbacks: Callbacks) -> View:
    """Return the only page that shows this secret."""
    return View("apps/endpoint_secret.html", {"callbacks": callbacks}, secret=True)


def _url(visit: Visit) -> str:
    return f"{APPS}/{visit.app.id}/endpoint"
