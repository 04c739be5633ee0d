"""The app of a measurement: registered by an operator, with a token from the service."""

import httpx

from benchmarks import measures
from benchmarks.drive import CannotMeasure
from benchmarks.services import Service
from stoa.access.apps import create_app
from stoa.access.contract import NewSecret
from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.db.pool import Database
from stoa.settings import Settings

APP_SCOPES = ["products:write", "inventory:write", "orders:write", "orders:import", "customers:write"]


async def register(settings: Settings, handle: str, known: NewSecret | None = None) -> NewSecret:
    """Install an app on the store: the known one, or a new one."""
    database = Database(settings.database_url, size=1)
    operator = Operator(database, settings, actor="operator:bench", request_id="bench")
    try:
        app = known or await create_app(operator, "Benchmark", APP_SCOPES)
        await install(operator, app.client_id, handle)
        return app
    finally:
        await database.close()


def get_token(service: Service, app: NewSecret) -> str:
    answer = httpx.post(f"{service.origin}/oauth/token", content=measures.form(app), headers=measures.FORM)
    if answer.status_code != 200:
        raise CannotMeasure(f"no token: {answer.status_code} {answer.text[:500]}")
    return answer.json()["access_token"]
