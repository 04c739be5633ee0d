"""Pages for operators: find, suspend and resume stores and apps; invite, reset, disable and enable accounts."""

from typing import Annotated, Any

import msgspec

from stoa.access import apps, stores
from stoa.access.addresses import is_handle
from stoa.access.contract import App, NoSuchApp, NoSuchStore, StoreRow
from stoa.access.grants import list_installations
from stoa.access.operator import find_app, known_store
from stoa.accounts import registration, reset_requests
from stoa.accounts.contract import Account
from stoa.accounts.ownership import owned_apps, owned_stores
from stoa.accounts.queries import GET_ACCOUNT
from stoa.accounts.refusals import EmailTaken, InvalidEmail, NoSuchInvitation, TooManyInvitations
from stoa.db.query import Query
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.forms import ConfirmedForm, Email, FormError, sentence, text
from stoa.portal.kit.links import invitation_made
from stoa.portal.kit.list_view import PAGE_SIZE, before
from stoa.portal.kit.pages import ROOT, Audience, Pages, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.portal.operators.queries import ACCOUNTS, APP_MEMBERS, APPS, STORE_MEMBERS, STORES


class SuspensionForm(ConfirmedForm, kw_only=True):
    reason: Annotated[
        str, text("Enter a reason with 1 to 500 characters.", min_length=1, max_length=500, multiline=True)
    ]


class InvitationForm(msgspec.Struct):
    email: Email
    operator: bool = False
    confirmed: bool = False


pages = Pages()
_OPERATORS = f"{ROOT}/operators"
_INVITE = f"{_OPERATORS}/invite"


async def _search(visit: Visit, query: Query[Any], statuses: tuple[str, ...]) -> dict[str, Any]:
    """Return one page of search results, newest first, and the number at which the next page starts."""
    term, status = visit.query("q").strip(), visit.query("status")
    status = status if status in statuses else ""
    rows = await query.all(visit.everywhere, before(visit), term.lower(), status, PAGE_SIZE + 1)
    next_number = rows[PAGE_SIZE - 1].id if rows[PAGE_SIZE:] else 0
    return {"rows": rows[:PAGE_SIZE], "next": next_number, "q": term, "status": status, "statuses": statuses}


# --- stores ------------------------------------------------------------------------------------------------


@pages.page("/operators/stores", audience=Audience.OPERATOR)
async def operator_stores(visit: Visit) -> View:
    return View("operators/stores.html", await _search(visit, STORES, ("active", "suspended", "closed")))


@pages.page("/operators/stores/{store}", audience=Audience.OPERATOR, nav="operator_stores")
async def operator_store(visit: Visit) -> View:
    await visit.open(visit.path_param("store"))
    store = await _store(visit)
    context = {
        "store": store,
        "members": await STORE_MEMBERS.all(visit.db, store.id),
        "installed": await list_installations(visit.by, store.handle),
    }
    return View("operators/store.html", context)


@pages.form("/operators/stores/{store}/suspend", on=operator_store)
async def suspend_store(visit: Visit, form: SuspensionForm) -> Redirect:
    store = await stores.suspend_store(visit.by, (await _store(visit)).handle, form.reason)
    return Redirect(f"{_OPERATORS}/stores/{store.handle}", f"{store.name} is suspended. All apps are blocked there.")


@pages.form("/operators/stores/{store}/resume", on=operator_store)
async def resume_store(visit: Visit) -> Redirect:
    store = await stores.resume_store(visit.by, (await _store(visit)).handle)
    return Redirect(f"{_OPERATORS}/stores/{store.handle}", f"{store.name} is active again.")


async def _store(visit: Visit) -> StoreRow:
    handle: str = visit.path_param("store")
    try:
        return await known_store(visit.db, handle if is_handle(handle) else "")
    except NoSuchStore:
        raise not_found() from None


# --- apps --------------------------------------------------------------------------------------------------


@pages.page("/operators/apps", audience=Audience.OPERATOR)
async def operator_apps(visit: Visit) -> View:
    return View("operators/apps.html", await _search(visit, APPS, ("active", "suspended", "deleted")))


@pages.page("/operators/apps/{app:int}", audience=Audience.OPERATOR, nav="operator_apps")
async def operator_app(visit: Visit) -> View:
    app = await found_app(visit)
    return View("operators/app.html", {"app": app, "members": await APP_MEMBERS.all(visit.db, app.id)})


@pages.form("/operators/apps/{app:int}/suspend", on=operator_app)
async def suspend_app(visit: Visit, form: SuspensionForm) -> Redirect:
    app = await apps.suspend_app(visit.by, (await found_app(visit)).client_id, form.reason)
    return Redirect(f"{_OPERATORS}/apps/{app.id}", f"{app.name} is suspended. It is blocked on all stores.")


@pages.form("/operators/apps/{app:int}/resume", on=operator_app)
async def resume_app(visit: Visit) -> Redirect:
    app = await apps.resume_app(visit.by, (await found_app(visit)).client_id)
    return Redirect(f"{_OPERATORS}/apps/{app.id}", f"{app.name} is active again.")


async def found_app(visit: Visit) -> App:
    """Return the app in the path of an operator page."""
    try:
        return await find_app(visit.everywhere, str(visit.path_param("app")))
    except NoSuchApp:
        raise not_found() from None


# --- accounts ----------------------------------------------------------------------------------------------


@pages.page("/operators/accounts", audience=Audience.OPERATOR)
async def operator_accounts(visit: Visit) -> View:
    return View("operators/accounts.html", await _search(visit, ACCOUNTS, ("active", "disabled")))


@pages.page("/operators/invite", audience=Audience.OPERATOR, nav="operator_accounts")
async def invite_page(visit: Visit) -> View:
    context = {
        "closed": visit.settings.sign_up == "closed",
        "sends": bool(visit.settings.smtp_url),
        "invitations": await registration.pending_invitations(visit.db),
    }
    return View("operators/invite.html", context)


@pages.form("/operators/invite", on=invite_page)
async def invite_account(visit: Visit, form: InvitationForm) -> View | Redirect:
    """Invite a person to create an account; an invitation of an operator needs a confirmation."""
    if visit.settings.sign_up == "closed":
        raise FormError({"": "STOA_SIGN_UP is closed, so nobody could use the link. Create the account by command."})
    if form.operator and not form.confirmed:
        raise FormError(confirmed="Select this box to invite an operator.")
    try:
        link = await registration.invite(visit.by, form.email, operator=form.operator, by_email=True)
    except (InvalidEmail, EmailTaken) as refusal:
        raise FormError(email=sentence(refusal)) from refusal
    except TooManyInvitations as refusal:
        raise FormError({"email": sentence(refusal)}, status=429) from refusal
    title = "Invitation of an operator" if form.operator else "Invitation"
    return invitation_made(link, title, _INVITE, "Invitations")


@pages.form("/operators/invitations/{invited}/revoke", on=invite_page)
async def revoke_account_invitation(visit: Visit) -> Redirect:
    try:
        await registration.revoke_invitation(visit.by, visit.path_param("invited"))
    except NoSuchInvitation as refusal:
        return Redirect(_INVITE, sentence(refusal), "warn")
    return Redirect(_INVITE, "Invitation revoked. Its link no longer works.")


@pages.page("/operators/accounts/{account:int}", audience=Audience.OPERATOR, nav="operator_accounts")
async def operator_account(visit: Visit) -> View:
    account = await _account(visit)
    context = {
        "account": account,
        "sends": bool(visit.settings.smtp_url),
        "stores": await owned_stores(visit.by, account.id),
        "apps": await owned_apps(visit.by, account.id),
    }
    return View("operators/account.html", context)


@pages.form("/operators/accounts/{account:int}/reset-password", on=operator_account)
async def send_password_reset(visit: Visit) -> View | Redirect:
    """Email a reset link, or show it to the operator if the service sends no email."""
    account = await _account(visit)
    page = f"{_OPERATORS}/accounts/{account.id}"
    if account.status != "active":
        raise FormError({"": "This account is disabled. Enable it first."})
    if not visit.settings.smtp_url:
        link = await registration.create_reset_link(visit.by, account.email)
        context = {"link": link, "title": "Password reset", "back": page, "back_label": account.name}
        return View("link.html", context, secret=True)
    if await reset_requests.send_reset(visit.by, account):
        return Redirect(page, f"We have sent a link to {account.email} by email. It works once, for one hour.")
    return Redirect(page, "A link was sent in the last five minutes, and still works.", "warn")


@pages.form("/operators/accounts/{account:int}/reset-two-factor", on=operator_account)
async def send_two_factor_reset(visit: Visit, form: ConfirmedForm) -> Redirect:
    """Email a link that also turns two-factor authentication off; the operator never sees it."""
    account = await _account(visit)
    page = f"{_OPERATORS}/accounts/{account.id}"
    if account.id == visit.me.account_id:
        raise FormError({"": "You cannot reset your own second factor. Another operator can do it."})
    if account.status != "active" or not account.two_factor:
        raise FormError({"": "This account is disabled, or two-factor authentication is off. Reload the page."})
    if not visit.settings.smtp_url:
        raise FormError({"": f"This service sends no email. Run “stoa account reset {account.email} --two-factor”."})
    if await reset_requests.send_reset(visit.by, account, two_factor=True):
        return Redirect(page, f"We have sent a link to {account.email} by email. It works once, for one hour.")
    return Redirect(page, "A link was sent in the last five minutes, and still works.", "warn")


@pages.form("/operators/accounts/{account:int}/disable", on=operator_account)
async def disable_account(visit: Visit, form: SuspensionForm) -> Redirect:
    account = await _account(visit)
    if account.id == visit.me.account_id:
        raise FormError({"": "You cannot disable your own account. Another operator can do it."})
    await registration.disable_account(visit.by, account.email, form.reason)
    return Redirect(f"{_OPERATORS}/accounts/{account.id}", f"{account.name} is signed out and can no longer sign in.")


@pages.form("/operators/accounts/{account:int}/enable", on=operator_account)
async def enable_account(visit: Visit) -> Redirect:
    account = await _account(visit)
    await registration.enable_account(visit.by, account.email)
    return Redirect(f"{_OPERATORS}/accounts/{account.id}", f"{account.name} can sign in again.")


async def _account(visit: Visit) -> Account:
    found = await GET_ACCOUNT.maybe(visit.db, visit.path_param("account"))
    if found is None:
        raise not_found()
    return found
