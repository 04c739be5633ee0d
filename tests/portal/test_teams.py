"""Teams: invitations, roles, leaving, and the transfer of ownership, for apps and for stores."""

import asyncio
import re

import pytest

from stoa.accounts import teams
from stoa.accounts.contract import Team
from stoa.accounts.ownership import give, register_app, take
from stoa.accounts.refusals import LastOwner, TooManyApps
from stoa.accounts.team_queries import LOCK_MEMBERS
from stoa.app import Application
from stoa.db.pool import Database
from stoa.operations.maintenance import maintain
from tests.portal.installed_app import REASONS, InstalledApp
from tests.support.people import PASSWORD, User, Visitor, create_user, new_email
from tests.support.races import until_it_waits

KINDS = pytest.mark.parametrize("kind", ["app", "store"])
MIDDLE = {"app": "developer", "store": "manager"}


def url(app: InstalledApp, kind: str) -> str:
    return app.path if kind == "app" else f"/portal/stores/{app.handle}"


def team_of(app: InstalledApp, kind: str) -> Team:
    return Team("app", app.app_id, "Walker") if kind == "app" else Team("store", app.store_id, "Hooks")


async def add(app: InstalledApp, user: User, kind: str, role: str) -> None:
    of_team = {"app": str(app.app_id)} if kind == "app" else {"store": app.handle}
    await give(app.by, user.email, role=role, **of_team)


async def invite(app: InstalledApp, kind: str, email: str, role: str) -> str:
    """Invite as Maria, and return the path of the link."""
    await app.user.open(f"{url(app, kind)}/team")
    await app.user.submit(f"{url(app, kind)}/team/invite", email=email, role=role)
    found = re.search(r"/portal/join/[\w-]+", app.user.text)
    assert found, app.user.text
    return found[0]


async def roles(app: InstalledApp, kind: str) -> dict[str, str]:
    return {each.name: each.role for each in await teams.members_of(app.db, team_of(app, kind))}


@KINDS
async def test_a_colleague_joins_by_signing_up(app: InstalledApp, maria: User, visitor: Visitor, kind: str) -> None:
    email, base = new_email(), url(app, kind)
    link = await invite(app, kind, email.upper(), MIDDLE[kind])
    await maria.open(f"{base}/team")
    assert email in maria.text
    await visitor.open(link)
    await visitor.submit(link, name="Ada New", password="short")
    assert "password" in visitor.faults
    await visitor.submit(link, name="Ada New", password=PASSWORD)
    assert visitor.path == base
    assert "Welcome to the team" in visitor.notice
    assert await roles(app, kind) == {"Maria Stone": "owner", "Ada New": MIDDLE[kind]}
    # A member changes things, but not the team.
    await visitor.open(f"{base}/team")
    assert "Invite a colleague" not in visitor.text
    await visitor.submit(f"{base}/team/invite", email=new_email(), role="viewer")
    assert visitor.response.status_code == 403
    await visitor.open(link)
    assert visitor.response.status_code == 404, "a link works once"
    await maria.open(f"{base}/audit")
    assert "Team joined" in maria.text
    assert "Ada New" in maria.text
    assert email not in maria.text, "the log names people, not addresses"


@KINDS
async def test_only_the_invited_account_can_accept(
    app: InstalledApp, application: Application, zeno: User, visitor: Visitor, kind: str
) -> None:
    link = await invite(app, kind, zeno.email, "viewer")
    await visitor.open(link)
    assert f"/portal/sign-in?next={link}" in visitor.text
    other = await create_user(application, app.db, name="Other")
    await other.open(link)
    assert "You are signed in as" in other.text
    await other.submit(f"{link}/accept")
    assert other.response.status_code == 422
    assert "Other" not in await roles(app, kind)
    await zeno.open(link)
    responses = await asyncio.gather(*(zeno.client.post(f"{link}/accept", data={"_token": zeno.token}) for _ in "ab"))
    assert sorted(each.status_code for each in responses) == [303, 404], "submitted twice, accepted once"
    assert (await roles(app, kind))["Zeno"] == "viewer"
    await app.user.open(f"{url(app, kind)}/team")
    await app.user.submit(f"{url(app, kind)}/team/invite", email=zeno.email, role="viewer")
    assert "already a member" in app.user.faults["email"]
    await other.client.aclose()


@KINDS
async def test_an_invitation_ends_when_it_is_replaced_revoked_declined_or_old(
    app: InstalledApp, maria: User, visitor: Visitor, kind: str
) -> None:
    email, base = new_email(), url(app, kind)

    async def is_gone(link: str) -> bool:
        await visitor.open(link)
        return visitor.response.status_code == 404

    first = await invite(app, kind, email, "viewer")
    second = await invite(app, kind, email, "viewer")
    assert await is_gone(first)
    [pending] = await teams.invitations_to(app.db, team_of(app, kind))
    await maria.open(f"{base}/team")
    await maria.submit(f"{base}/team/invitations/{pending.id}/revoke")
    assert "revoked" in maria.notice
    await maria.submit(f"{base}/team/invitations/{pending.id}/revoke")
    assert maria.tone == "warn", "a stale page"
    assert await is_gone(second)
    third = await invite(app, kind, email, "viewer")
    await visitor.open(third)
    await visitor.submit(f"{third}/decline")
    assert await is_gone(third)
    fourth = await invite(app, kind, email, "viewer")
    await app.db.execute("UPDATE team_invitations SET expires_at = now() WHERE email = $1", email)
    assert await is_gone(fourth)
    await maintain(app.db)
    assert await app.db.fetch("SELECT FROM team_invitations WHERE email = $1", email) == []
    await maria.open(f"{base}/team")
    await maria.submit(f"{base}/team/invite", email="nobody", role="viewer")
    assert "email" in maria.faults
    await maria.submit(f"{base}/team/invite", email=email, role="manager" if kind == "app" else "developer")
    assert "role" in maria.faults, "a role of the other kind"


async def test_who_joins_by_signing_up_signs_in_from_a_known_browser(
    app: InstalledApp, visitor: Visitor, db: Database
) -> None:
    email = new_email()
    link = await invite(app, "app", email, "viewer")
    await visitor.open(link)
    await visitor.submit(link, name="Ada New", password=PASSWORD)
    await visitor.submit("/portal/sign-out")
    await visitor.submit("/portal/sign-in", email=email, password=PASSWORD)
    assert visitor.path == "/portal"
    found = "SELECT n.kind FROM notifications n JOIN accounts a ON a.id = n.account_id WHERE a.email = $1"
    assert await db.fetch(found, email) == []


@KINDS
async def test_the_last_owner_stays(app: InstalledApp, maria: User, zeno: User, kind: str) -> None:
    base, me = url(app, kind), maria.account.id
    await add(app, zeno, kind, "viewer")
    await maria.open(f"{base}/team")
    assert "You are the only owner." in maria.text
    await maria.submit(f"{base}/team/leave", confirmed="on")
    assert "There must be an owner" in maria.notice
    await maria.submit(f"{base}/team/members/{me}", role="viewer")
    assert "There must be an owner" in maria.notice
    await maria.submit(f"{base}/team/members/{zeno.account.id}", role="owner")
    assert maria.notice == "Role changed."
    leaving = [teams.remove_member(app.by, team_of(app, kind), each, left=True) for each in (me, zeno.account.id)]
    outcomes = await asyncio.gather(*leaving, return_exceptions=True)
    assert [type(each) for each in outcomes if each is not None] == [LastOwner], "two owners leave at once"
    assert list((await roles(app, kind)).values()) == ["owner"]


@KINDS
@pytest.mark.parametrize("form", ["invite", "members/{}", "remove", "offer"])
async def test_an_owner_who_is_removed_meanwhile_changes_nothing(
    app: InstalledApp, application: Application, zeno: User, kind: str, form: str
) -> None:
    ada = await create_user(application, app.db)
    await add(app, zeno, kind, "owner")
    await add(app, ada, kind, "viewer")
    before = await roles(app, kind)
    team, member = team_of(app, kind), ada.account.id
    await zeno.open(f"{url(app, kind)}/team")
    fields = {"email": new_email(), "role": "owner", "member": member, "confirmed": "on"}
    async with app.by.transaction() as by:
        await teams.remove_member(by, team, zeno.account.id)
        late = asyncio.create_task(zeno.submit(f"{url(app, kind)}/team/{form.format(member)}", fields))
        await until_it_waits(late, app.db)
    await late
    del before[zeno.account.name]
    assert await roles(app, kind) == before
    assert await teams.invitations_to(app.db, team) == []
    assert await teams.offer_of(app.db, team) is None


@KINDS
async def test_an_invitation_that_is_accepted_while_its_maker_is_removed_has_ended(
    app: InstalledApp, application: Application, maria: User, zeno: User, kind: str
) -> None:
    team, ada = team_of(app, kind), await create_user(application, app.db)
    await add(app, zeno, kind, "owner")
    link = await invite(app, kind, ada.email, "viewer")
    await ada.open(link)
    async with app.by.transaction() as by:
        await LOCK_MEMBERS[team.kind].all(by.db, team.id)
        late = asyncio.create_task(ada.submit(f"{link}/accept"))
        await until_it_waits(late, app.db)
        await teams.remove_member(by, team, maria.account.id)
    await late
    assert ada.response.status_code == 404
    assert list(await roles(app, kind)) == [zeno.account.name]


async def test_an_account_does_not_own_more_apps_than_allowed_by_two_changes_at_once(
    app: InstalledApp, zeno: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teams, "MAX_APPS", 1)
    other = (await register_app(app.by, app.user.account.id, "Other", "", REASONS, new_email())).app_id
    one, two, me = team_of(app, "app"), Team("app", other, "Other"), zeno.account.id
    await add(app, zeno, "app", "viewer")
    await give(app.by, zeno.email, role="viewer", app=str(other))
    async with app.by.transaction() as by:
        await teams.change_role(by, one, me, "owner")
        late = asyncio.create_task(teams.change_role(app.by, two, me, "owner"))
        await until_it_waits(late, app.db)
    with pytest.raises(TooManyApps):
        await late


@KINDS
async def test_a_removed_owner_takes_the_invitations_along(
    app: InstalledApp, maria: User, zeno: User, visitor: Visitor, kind: str
) -> None:
    base = url(app, kind)
    await add(app, zeno, kind, "owner")
    link = await invite(app, kind, new_email(), "owner")
    await zeno.open(f"{base}/team")
    await zeno.submit(f"{base}/team/remove", member=maria.account.id)
    assert "confirmed" in zeno.faults
    await zeno.submit(f"{base}/team/remove", member=maria.account.id, confirmed="on")
    assert zeno.notice == "Member removed."
    await visitor.open(link)
    assert visitor.response.status_code == 404
    await maria.open(f"{base}/team")
    assert maria.response.status_code == 404
    await zeno.open(f"{base}/team")
    await zeno.submit(f"{base}/team/remove", member=maria.account.id, confirmed="on")
    assert zeno.tone == "warn", "a stale page"
    await zeno.submit(f"{base}/team/remove", member=zeno.account.id, confirmed="on")
    assert zeno.response.status_code == 422


@KINDS
@pytest.mark.parametrize("how", ["take", "give"])
async def test_an_owner_whom_an_operator_removes_takes_the_invitations_along(
    app: InstalledApp, maria: User, zeno: User, visitor: Visitor, kind: str, how: str
) -> None:
    of_team = {"app": str(app.app_id)} if kind == "app" else {"store": app.handle}
    await add(app, zeno, kind, "viewer")
    link = await invite(app, kind, new_email(), "owner")
    await maria.submit(f"{url(app, kind)}/team/offer", member=zeno.account.id, confirmed="on")
    await add(app, maria, kind, "owner")
    await visitor.open(link)
    assert visitor.response.status_code == 200, "who stays an owner keeps the invitations"
    if how == "take":
        await take(app.by, maria.email, **of_team)
    else:
        await add(app, maria, kind, "viewer")
    await visitor.open(link)
    assert visitor.response.status_code == 404
    assert await teams.offer_of(app.db, team_of(app, kind)) is None


@KINDS
async def test_a_role_that_an_operator_gives_keeps_an_offer_to_its_receiver(
    app: InstalledApp, maria: User, zeno: User, kind: str
) -> None:
    await add(app, zeno, kind, "viewer")
    await maria.open(f"{url(app, kind)}/team")
    await maria.submit(f"{url(app, kind)}/team/offer", member=zeno.account.id, confirmed="on")
    await add(app, zeno, kind, MIDDLE[kind])
    offer = await teams.offer_of(app.db, team_of(app, kind))
    assert offer is not None
    assert offer.to_account == zeno.account.id


@KINDS
async def test_ownership_is_transferred_when_the_receiver_confirms(
    app: InstalledApp, maria: User, zeno: User, kind: str
) -> None:
    base, receiver = url(app, kind), zeno.account.id
    await add(app, zeno, kind, "viewer")
    await maria.open(f"{base}/team")
    await maria.submit(f"{base}/team/offer", member=receiver)
    assert "confirmed" in maria.faults
    for answer in ("withdraw", "decline", "accept"):
        await maria.open(f"{base}/team")
        await maria.submit(f"{base}/team/offer", member=receiver, confirmed="on")
        assert "must confirm" in maria.notice
        assert (await roles(app, kind))["Zeno"] == "viewer", "nothing changes yet"
        await zeno.open("/portal")
        assert "Ownership offered to you" in zeno.text
        await zeno.open(f"{base}/team")
        person = maria if answer == "withdraw" else zeno
        await person.submit(f"{base}/team/offer/{answer}")
        assert person.tone == "good", person.text
    assert await roles(app, kind) == {"Maria Stone": MIDDLE[kind], "Zeno": "owner"}
    await zeno.submit(f"{base}/team/offer/accept")
    assert zeno.tone == "warn", "submitted twice"
    await maria.submit(f"{base}/team/invite", email=new_email(), role="viewer")
    assert maria.response.status_code == 403, "the open page of the former owner is stale"
    await maria.open(f"{base}/team")
    await maria.submit(f"{base}/team/leave", confirmed="on")
    assert "You left the team" in maria.notice
    await zeno.open(f"{base}/audit")
    for entry in ("Team ownership offered", "Team ownership transferred", "Team left", "Maria Stone"):
        assert entry in zeno.text


async def test_members_of_a_development_store_have_a_development_store(maria: User, zeno: User, db: Database) -> None:
    await maria.open("/portal/stores")
    await maria.submit("/portal/stores/development")
    handle = maria.path.rpartition("/")[2]
    await maria.open(f"/portal/stores/{handle}/team")
    await maria.submit(f"/portal/stores/{handle}/team/invite", email=zeno.email, role="manager")
    link = re.search(r"/portal/join/[\w-]+", maria.text)
    assert link
    await zeno.open(link[0])
    await zeno.submit(f"{link[0]}/accept")
    await zeno.open("/portal/stores")
    assert "Development" in zeno.text


async def test_an_operator_invites_people_and_operators(
    application: Application, db: Database, visitor: Visitor
) -> None:
    operator = await create_user(application, db, operator=True)
    await operator.open("/portal/operators/invite")
    await operator.submit("/portal/operators/invite", email=operator.email)
    assert "already exists" in operator.faults["email"]
    await operator.submit("/portal/operators/invite", email=new_email(), operator="on")
    assert "confirmed" in operator.faults
    email = new_email()
    await operator.submit("/portal/operators/invite", email=email, operator="on", confirmed="on")
    link = re.search(r"/portal/invitation/[\w-]+", operator.text)
    assert link
    await visitor.open(link[0])
    await visitor.submit(link[0], name="Second Operator", password=PASSWORD)
    await visitor.open("/portal/operators/accounts")
    assert visitor.response.status_code == 200
    await operator.client.aclose()
