"""The deploy tokens of an app: created, listed and revoked."""

from typing import Annotated

import msgspec

from stoa.access import deploy_tokens as tokens
from stoa.access.contract import InvalidName
from stoa.access.deploy_tokens import DeployTokenTaken, NoSuchDeployToken, TooManyDeployTokens
from stoa.access.operator import find_app
from stoa.portal.apps.apps import APPS
from stoa.portal.kit.audit_log import ACCOUNT, names_of
from stoa.portal.kit.forms import FormError, sentence, text
from stoa.portal.kit.pages import Pages, Redirect, View
from stoa.portal.kit.visit import Visit

pages = Pages()


class DeployTokenForm(msgspec.Struct):
    """`days` is 0 for a token that does not expire."""

    name: Annotated[str, text("Enter a name with 1 to 80 characters.", min_length=1, max_length=80)]
    days: Annotated[int, msgspec.Meta(ge=0, le=tokens.MOST_DAYS, extra={"message": "Select one of the options."})] = 90


@pages.page("/apps/{app_id:int}/deploy-tokens", nav="list_apps")
async def app_deploy_tokens(visit: Visit) -> View:
    found = await tokens.list_deploy_tokens(visit.by, await find_app(visit.db, visit.app.client_id))
    names = await names_of(visit, [f"{ACCOUNT}{each.account_id}" for each in found])
    return View("apps/deploy_tokens.html", {"tokens": found, "names": names})


@pages.form("/apps/{app_id:int}/deploy-tokens", on=app_deploy_tokens)
async def create_deploy_token(visit: Visit, form: DeployTokenForm) -> View:
    """Return the only page that shows the new token."""
    try:
        made = await tokens.create_deploy_token(
            visit.by, visit.app.client_id, form.name, days=form.days or None, account_id=visit.me.account_id
        )
    except (DeployTokenTaken, InvalidName, TooManyDeployTokens) as refusal:
        raise FormError(name=sentence(refusal)) from refusal
    return View("apps/deploy_token.html", {"token": made, "service": visit.origin}, secret=True)


@pages.form("/apps/{app_id:int}/deploy-tokens/{token_id:int}/revoke", on=app_deploy_tokens)
async def revoke_deploy_token(visit: Visit) -> Redirect:
    url = f"{APPS}/{visit.app.id}/deploy-tokens"
    try:
        await tokens.revoke_deploy_token(visit.by, visit.app.client_id, visit.path_param("token_id"))
    except NoSuchDeployToken as refusal:
        return Redirect(url, sentence(refusal), "warn")
    return Redirect(url, "The deploy token is revoked.")
