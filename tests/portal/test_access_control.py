"""The rights matrix: every declared page and form, tried by everybody. A new page or form fails until it is listed here."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from stoa.access import audit
from stoa.access.closures import close_store
from stoa.access.operator import find_store
from stoa.accounts.contract import Right
from stoa.accounts.ownership import give
from stoa.app import Application
from stoa.db.pool import Database
from stoa.portal.kit.csrf import form_token
from stoa.portal.kit.pages import Audience, Form, Page
from stoa.portal.site_map import FORMS, PAGES
from stoa.settings import secret_key
from tests.portal.path_params import is_owned, path_params_for
from tests.support.people import SAME_ORIGIN, User, Visitor, as_operator, create_user

NONEXISTENT = {"app_id": 2**60, "handle": "no-such-store"}
TARGETS: list[Page | Form] = [*PAGES, *FORMS]
# Who may open a page or submit a form: an audience, or the least right on the app or store in the path.
NEEDS: dict[Audience | Right, str] = {
    Audience.ANYONE: """
        accept_invitation accept_team_invitation choose_theme decline_team_invitation invitation_page join_page
        join_with_new_account new_password_page reset_password set_up set_up_page theme_page""",
    Audience.GUEST: """
        ask_for_reset forgot_password_page sign_in sign_in_page sign_up sign_up_page""",
    Audience.TWO_FACTOR_PENDING: "check_two_factor two_factor_page",
    Audience.SIGNED_IN: """
        access_tokens account_page announcements_page approve_install change_name change_password dashboard
        dismiss_announcement dismiss_checklist end_other_sessions end_session install_page list_apps list_stores new_app
        new_store notifications_page open_development_store open_notification open_store read_all_notifications
        read_notification refuse_install register_app renew_recovery_codes save_preferences search_page send_verification sign_out
        turn_off_two_factor turn_on_two_factor two_factor_set_up verify_address verify_page""",
    Audience.OPERATOR: """
        create_announcement disable_account enable_account end_announcement export_audit invite_account invite_page operator_account
        operator_accounts operator_announcements operator_app operator_app_request operator_app_requests operator_apps
        operator_audit operator_health operator_load operator_mail operator_outbox operator_shards operator_store operator_stores
        resend_failed_mails resend_mail resume_app resume_store revoke_account_invitation send_password_reset send_test_mail send_two_factor_reset suspend_app
        suspend_store""",
    Right.VIEW: """
        app_accept_ownership app_audit app_credentials app_decline_ownership app_deploy_tokens app_endpoint app_file app_leave app_metadata app_page app_receivers app_request
        app_requests app_settings app_stores app_subscriptions_page app_tail app_team app_usage app_webhook app_webhooks installed_app
        remove_filter save_filter store_accept_ownership store_audit store_collection store_collections store_customer store_customers store_decline_ownership store_home
        store_import store_imports store_leave store_ledger store_location store_locations store_metadata store_order store_orders store_page
        store_product store_products store_search store_settings store_team webhook_deliveries webhook_delivery""",
    Right.CHANGE: """
        add_address add_customer add_key add_picture add_product app_subscription apply_app_file approve_request
        cancel_running_import change_address change_app change_callbacks change_collection change_customer
        change_customer_metadata change_declaration change_location change_members change_order change_order_metadata
        change_pictures change_product change_product_metadata change_stock change_store_settings
        check_corrected_rows close_location comment_on_order compare_app_file create_collection create_deploy_token
        create_location create_subscription declare_subscription define_app_metadata define_metadata
        delete_collection delete_subscription download_failed_rows download_report download_template edit_customer
        edit_product end_old_secret export_customers export_orders export_products fix_import issue_access_token
        new_app_subscription new_customer new_import new_order new_product new_webhook
        open_development_store_for_app open_location order_action packing_slips pause_managed_subscription
        pause_subscription pick_list place_sample_order
        redeliver_one redeliver_range redeliver_selected reduce_app_scopes refuse_request reinstall_app
        remove_address remove_declaration remove_key request_install resume_declaration resume_endpoint resume_managed_subscription
        resume_subscription revoke_deploy_token revoke_tokens rotate_secret rotate_signing_secret
        rotate_subscription_secret select_orders send_test ship_orders ship_page start_checked_import transfer_page transfer_stock uninstall_app
        undefine_app_metadata undefine_metadata update_subscription upload_import webhook_settings withdraw_request write_order""",
    Right.OWN: """
        app_change_role app_invite app_offer_ownership app_remove_member app_revoke_invitation app_withdraw_offer
        close_store delete_app delete_development_store delete_store export_store forget_customer cancel_store_deletion
        reopen_store reset_development_store store_change_role store_invite store_offer_ownership store_remove_member
        store_revoke_invitation store_withdraw_offer""",
}
NEEDED = {name: need for need, names in NEEDS.items() for name in names.split()}
# Forms after which a member has no more access, or the app is gone; they come last.
LAST = ("app_leave", "store_leave", "app_remove_member", "store_remove_member", "delete_app")


def test_every_page_and_form_is_in_the_matrix() -> None:
    assert len({target.name for target in TARGETS}) == len(TARGETS), "names are unique"
    assert {target.name: target.right if is_owned(target) else target.audience for target in TARGETS} == NEEDED


async def request(user: User, target: Page | Form, params: Mapping[str, Any]) -> tuple[int, str]:
    path = target.url(params)
    if isinstance(target, Page):
        response = await user.client.get(path)
    else:
        token = form_token(secret_key(user.application.settings), user.client.cookies["stoa_session"])
        response = await user.client.post(path, data={"_token": token}, headers=SAME_ORIGIN)
    return response.status_code, response.text


def comparable(response: tuple[int, str]) -> tuple[int, str]:
    text = re.sub(r'(nonce|value)="[^"]*"', "", response[1])
    return response[0], re.sub(r"/portal/[^\" ]*", "", text)


def _pattern(path: str) -> str:
    return re.sub(r"{[^}]+}", "[^/]+", re.sub(r"{\w+:int}", "[0-9]+", path))


def rights_of_forms(html: str) -> dict[str, Right]:
    """The forms and buttons of a page, with the right that each needs."""
    found: dict[str, Right] = {}
    for action in re.findall(r'<(?:form method="post"|button)[^>]* (?:form)?action="([^"?]+)', html):
        [form] = [form for form in FORMS if re.fullmatch(_pattern(form.path), action)]
        found[form.name] = form.right
    return found


async def test_a_stranger_who_is_signed_out_gets_nowhere(visitor: Visitor, maria: User, db: Database) -> None:
    params = await path_params_for(maria, db)
    await visitor.open("/portal/sign-in")
    token = form_token(secret_key(maria.application.settings), visitor.client.cookies["stoa_session"])
    for target in TARGETS:
        if target.audience in (Audience.SIGNED_IN, Audience.OPERATOR):
            path = target.url(params)
            if isinstance(target, Page):
                response = await visitor.client.get(path)
            else:
                response = await visitor.client.post(path, data={"_token": token}, headers=SAME_ORIGIN)
            assert response.status_code == 303, target.name
            assert response.headers["location"].startswith("/portal/sign-in"), target.name


@pytest.mark.parametrize("person", ["nobody", "owner of others", "member of others", "operator"])
async def test_pages_of_another_account_look_like_pages_that_do_not_exist(
    application: Application, maria: User, zeno: User, db: Database, person: str
) -> None:
    params, by = await path_params_for(maria, db), as_operator(db, maria.application.settings)
    intruder = await create_user(application, db, operator=person == "operator")
    if person == "owner of others":
        await path_params_for(intruder, db)
    if person == "member of others":
        theirs = await path_params_for(zeno, db)
        await give(by, intruder.email, store=theirs["handle"], role="manager")
        await give(by, intruder.email, app=str(theirs["app_id"]), role="developer")
    store = await find_store(db, params["handle"])
    before = [await audit.head(db, chain) for chain in (audit.SERVICE, store.id)]
    for target in filter(is_owned, TARGETS):
        foreign = await request(intruder, target, params)
        assert foreign[0] == 404, target.name
        missing = await request(intruder, target, params | NONEXISTENT)
        assert comparable(foreign) == comparable(missing), target.name
    for target in TARGETS:
        if target.audience is Audience.OPERATOR and (person != "operator" or isinstance(target, Page)):
            status, text = await request(intruder, target, params)
            assert status == (200 if person == "operator" else 404), f"{target.name}: {text}"
    assert [await audit.head(db, chain) for chain in (audit.SERVICE, store.id)] == before, "nothing was changed"
    await intruder.client.aclose()


@pytest.mark.parametrize("right", list(Right))
async def test_a_member_can_do_what_the_role_allows(maria: User, zeno: User, db: Database, right: Right) -> None:
    params, by = await path_params_for(maria, db), as_operator(db, maria.application.settings)
    roles = {Right.VIEW: ("viewer",) * 2, Right.CHANGE: ("developer", "manager"), Right.OWN: ("owner",) * 2}[right]
    await give(by, zeno.email, app=str(params["app_id"]), role=roles[0])
    await give(by, zeno.email, store=params["handle"], role=roles[1])
    owned = [target for target in TARGETS if is_owned(target)]
    store = await find_store(db, params["handle"])
    before = [await audit.head(db, chain) for chain in (audit.SERVICE, store.id)]
    for target in owned:
        if target.right > right:
            assert (await request(zeno, target, params))[0] == 403, target.name
    assert [await audit.head(db, chain) for chain in (audit.SERVICE, store.id)] == before, "nothing was changed"
    for target in owned:
        if isinstance(target, Page) and target.right <= right:
            status, html = await request(zeno, target, params)
            assert status in (200, 303), f"{target.name}: {html}"
            refused = {name for name, needed in rights_of_forms(html).items() if needed > right}
            assert refused == set(), f"{target.name} shows buttons that do not work"
    forms = sorted(owned, key=lambda target: LAST.index(target.name) + 1 if target.name in LAST else 0)
    for target in forms:
        if isinstance(target, Form) and target.right <= right:
            status, html = await request(zeno, target, params)
            assert status != 403, target.name
            assert status < 500, f"{target.name}: {html}"


# Of the forms that need the right to change a store, those that take something back, or only read.
WHILE_CLOSED = set(
    """download_failed_rows download_report download_template export_customers export_orders export_products
    pause_managed_subscription reduce_app_scopes refuse_request resume_managed_subscription select_orders uninstall_app""".split()
)


async def test_a_closed_store_cannot_be_changed(maria: User, db: Database) -> None:
    params, by = await path_params_for(maria, db), as_operator(db, maria.application.settings)
    await close_store(by, params["handle"])
    store = await find_store(db, params["handle"])
    before = await audit.head(db, store.id)
    refused = {"faults": {"": "This store is closed. Nothing was changed."}}
    token = form_token(secret_key(maria.application.settings), maria.client.cookies["stoa_session"])
    headers = {**SAME_ORIGIN, "accept": "application/json"}
    changing = [form for form in FORMS if "{handle" in form.path and form.right is Right.CHANGE]
    for form in sorted(changing, key=lambda form: form.name in WHILE_CLOSED):
        answer = await maria.client.post(form.url(params), data={"_token": token}, headers=headers)
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        assert (is_json and answer.json() == refused) == (form.name not in WHILE_CLOSED), form.name
        if form.name not in WHILE_CLOSED:
            assert await audit.head(db, store.id) == before, form.name


async def test_a_viewer_sees_no_action_buttons(maria: User, zeno: User, db: Database) -> None:
    params, by = await path_params_for(maria, db), as_operator(db, maria.application.settings)
    await give(by, zeno.email, app=str(params["app_id"]), store=params["handle"], role="viewer")
    seen: set[str] = set()
    for target in PAGES:
        if is_owned(target) and target.right is Right.VIEW:
            seen |= rights_of_forms((await request(zeno, target, params))[1]).keys()
    assert seen == {"choose_theme", "sign_out", "app_leave", "store_leave"}


@pytest.mark.parametrize("value", [0, 2**63, 2**64, 10**30])
async def test_an_invalid_app_id_is_not_found(maria: User, value: int) -> None:
    await maria.open(f"/portal/apps/{value}")
    assert maria.response.status_code == 404


@pytest.mark.parametrize("handle", ["%00", "UPPER", "a%20b", "%F0%9F%8F%9B", "-x", "x" * 300])
async def test_an_invalid_handle_is_not_found(maria: User, handle: str) -> None:
    await maria.open(f"/portal/stores/{handle}")
    assert maria.response.status_code == 404


async def test_a_session_of_another_account_cannot_be_ended(maria: User, zeno: User) -> None:
    await zeno.open("/portal/account")
    await zeno.submit(f"/portal/account/sessions/{maria.session_id}/end")
    assert zeno.response.status_code == 404
    await maria.open("/portal/account")
    assert maria.response.status_code == 200
