"""Decides who may open a page or submit a form: its audience, and the role on the app and the store in the path."""

from urllib.parse import quote

from stoa.access.addresses import is_handle
from stoa.accounts.contract import Right
from stoa.accounts.ownership import owned_app, owned_store
from stoa.db.pool import Database
from stoa.portal.kit.error_pages import PageError, not_found
from stoa.portal.kit.forms import FormError
from stoa.portal.kit.pages import ROOT, SIGN_IN, TWO_FACTOR, Audience, Form, Page, Redirect
from stoa.portal.kit.visit import Visit

_NOT_ALLOWED = {
    Right.CHANGE: ("View only", "Your role allows you to look, but not to change anything. Ask an owner."),
    Right.OWN: ("Owners only", "Only an owner can do this. Nothing was changed."),
}
_MAX_ID = 2**63


def check_audience(visit: Visit, target: Page | Form) -> Redirect | None:
    """Return where to send a visitor who is not in the target's audience; None if they are."""
    account = visit.account
    signed_in = account is not None and account.stage == "signed in"
    two_factor_pending = account is not None and not signed_in
    match target.audience:
        case Audience.ANYONE:
            return None
        case Audience.GUEST:
            return Redirect(ROOT) if signed_in else None
        case Audience.TWO_FACTOR_PENDING:
            return None if two_factor_pending else Redirect(ROOT if signed_in else SIGN_IN)
        case Audience.OPERATOR if account is not None and signed_in and not account.operator:
            raise not_found()
        case _ if signed_in:
            return None
        case _:
            page = TWO_FACTOR if two_factor_pending else SIGN_IN
            query = visit.request.scope["query_string"].decode("latin-1")
            if isinstance(target, Form):
                # The script of the page fills in the form again after the sign-in.
                message = "Your session has ended. Sign in to continue. Nothing was changed."
                url = _with_query(target.page.url(visit.request.path_params), query)
                return Redirect(f"{page}?next={quote(url)}&ended=1", message, "warn")
            url = visit.request.scope["path"]
            return Redirect(page if url == ROOT else f"{page}?next={quote(_with_query(url, query))}")


def _with_query(url: str, query: str) -> str:
    return f"{url}?{query}" if query else url


async def find_owned(visit: Visit, db: Database) -> None:
    """Look up the app and the store in the path together with the account's role, before any handler runs."""
    params = visit.request.path_params
    for value in params.values():
        if (isinstance(value, int) and not 0 < value < _MAX_ID) or not str(value).isprintable():
            raise not_found()
    if "app_id" in params:
        app = await owned_app(db, visit.me.account_id, params["app_id"])
        if app is None:
            raise not_found()
        visit.app = app
    if "handle" in params:
        valid = is_handle(params["handle"])
        store = await owned_store(db, visit.me.account_id, params["handle"]) if valid else None
        if store is None:
            raise not_found()
        visit.store = store


def check_right(visit: Visit, target: Page | Form) -> None:
    """Refuse what the account's role on the app and the store does not allow."""
    if not visit.may(target.right):
        raise PageError(403, *_NOT_ALLOWED[target.right])


def check_open(visit: Visit, form: Form) -> None:
    """Refuse a form that changes a suspended or closed store, as the API does."""
    changes = "{handle}" in form.path and form.right is Right.CHANGE and not form.while_closed
    if changes and visit.store.status != "active":
        raise FormError({"": f"This store is {visit.store.status}. Nothing was changed."})
