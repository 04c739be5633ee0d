"""Deploy tokens are shown once, stored hashed, limited to one app, and end when they are revoked or expire."""

import httpx
import pytest

from stoa.access import audit
from stoa.access.apps import create_app
from stoa.access.contract import InvalidName
from stoa.access.deploy_tokens import (
    MOST_TOKENS,
    DeployTokenTaken,
    InvalidLifetime,
    NoSuchDeployToken,
    TooManyDeployTokens,
    create_deploy_token,
    list_deploy_tokens,
    revoke_deploy_token,
)
from stoa.access.grants import issue_token
from stoa.access.operator import Operator
from stoa.app_file.endpoint import PATH
from stoa.db.pool import Database
from tests.app_file.conftest import Pushing


async def test_a_revoked_token_is_refused_at_once(ci: Pushing, db: Database) -> None:
    assert await ci.get()
    [token] = await list_deploy_tokens(ci.by, await ci.app())
    assert (token.name, token.hint) == ("CI", ci.token[-4:])
    assert token.used_at is not None
    await revoke_deploy_token(ci.by, ci.client_id, token.id)
    assert (await ci.client.get(PATH, headers=ci.headers)).status_code == 401
    with pytest.raises(NoSuchDeployToken):
        await revoke_deploy_token(ci.by, ci.client_id, token.id)
    entries = await audit.newest(db, None, 20)
    ours = [each.action for each in entries if each.subject == f"app:{(await ci.app()).id}"]
    assert ours[:2] == ["app.deploy_token_revoked", "app.deploy_token_created"]
    assert not [each for each in entries if ci.token in each.detail]


async def test_the_database_has_only_a_keyed_hash(ci: Pushing, db: Database) -> None:
    rows = await db.fetch("SELECT t::text FROM deploy_tokens t WHERE app_id = $1", (await ci.app()).id)
    assert len(rows) == 1
    assert ci.token not in rows[0][0]
    assert ci.token.removeprefix("stoa_dt_")[:20] not in rows[0][0]


async def test_an_expired_token_is_refused(ci: Pushing, db: Database) -> None:
    await db.execute("UPDATE deploy_tokens SET expires_at = now() WHERE app_id = $1", (await ci.app()).id)
    assert (await ci.client.get(PATH, headers=ci.headers)).status_code == 401


async def test_a_token_changes_only_its_app(ci: Pushing, operator: Operator) -> None:
    other = await create_app(operator, "Another", ["orders:read"])
    assert "Another" not in await ci.get()
    theirs = await create_deploy_token(operator, other.client_id, "CI", days=None)
    with pytest.raises(NoSuchDeployToken):
        await revoke_deploy_token(operator, ci.client_id, theirs.id)


async def test_access_tokens_and_deploy_tokens_are_not_exchangeable(ci: Pushing, service: httpx.AsyncClient) -> None:
    access = await issue_token(ci.by, ci.client_id, None)
    refused = await service.get(PATH, headers={"authorization": f"Bearer {access.access_token}"})
    assert refused.status_code == 401


async def test_names_lifetimes_and_numbers_are_limited(ci: Pushing) -> None:
    for name in ("", "x" * 81, "a\nb"):
        with pytest.raises(InvalidName):
            await create_deploy_token(ci.by, ci.client_id, name, days=None)
    for days in (0, 731):
        with pytest.raises(InvalidLifetime):
            await create_deploy_token(ci.by, ci.client_id, "CI", days=days)
    with pytest.raises(DeployTokenTaken):
        await create_deploy_token(ci.by, ci.client_id, "CI", days=1)
    for number in range(MOST_TOKENS - 1):
        await create_deploy_token(ci.by, ci.client_id, f"CI {number}", days=1)
    with pytest.raises(TooManyDeployTokens):
        await create_deploy_token(ci.by, ci.client_id, "One more", days=1)
