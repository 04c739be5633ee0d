"""An app with a deploy token, and a client that pushes its file."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec
import pytest
from starlette.applications import Starlette

from stoa.access.apps import create_app
from stoa.access.contract import App
from stoa.access.deploy_tokens import create_deploy_token
from stoa.access.operator import Operator, find_app
from stoa.app_file.endpoint import MEDIA_TYPE, PATH, routes
from stoa.db.pool import Database
from stoa.settings import Settings


@dataclass
class Pushing:
    """A CI job with the deploy token of an app."""

    by: Operator
    client: httpx.AsyncClient
    client_id: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    async def put(self, text: str, headers: dict[str, str] | None = None, **flags: Any) -> httpx.Response:
        more = {"content-type": MEDIA_TYPE, **self.headers, **(headers or {})}
        return await self.client.put(PATH, content=text, headers=more, params=flags)

    async def pushed(self, text: str, **flags: Any) -> dict[str, Any]:
        answer = await self.put(text, **flags)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    async def get(self) -> str:
        answer = await self.client.get(PATH, headers=self.headers)
        assert answer.status_code == 200, answer.text
        return answer.text

    async def app(self) -> App:
        return await find_app(self.by.db, self.client_id)


@pytest.fixture
def operator(db: Database, settings: Settings) -> Operator:
    return Operator(db, settings, actor="operator:tests", request_id="req_app_file")


@pytest.fixture
async def service(db: Database, settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    allowing = msgspec.structs.replace(settings, webhook_allow="127.0.0.0/8,localhost")
    transport = httpx.ASGITransport(Starlette(routes=routes(db, allowing)))
    async with httpx.AsyncClient(transport=transport, base_url="http://service.test") as client:
        yield client


@pytest.fixture
async def ci(operator: Operator, service: httpx.AsyncClient) -> Pushing:
    made = await create_app(operator, "An app", ["products:read"])
    token = await create_deploy_token(operator, made.client_id, "CI", days=90)
    return Pushing(operator, service, made.client_id, token.deploy_token)
