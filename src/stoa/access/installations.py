"""The endpoint at which an app lists the stores that have installed it, and those that no longer do."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stoa.access.addresses import ServiceUrls, base_url
from stoa.access.admission import TTL_S, TtlCache
from stoa.access.authentication import authenticate, read_credentials
from stoa.access.contract import ListedInstallation, OAuthError, StoreDetails, TemporarilyUnavailable
from stoa.access.credentials import is_access_token, keyed_hashes
from stoa.access.oauth import SAFE, oauth_refused, peer_of, request_id_of
from stoa.access.queries import INSTALLATIONS_PAGE, TOKEN_OWNER, InstallationRow
from stoa.db.errors import Unavailable
from stoa.db.fan_out import Everywhere
from stoa.db.pool import Database
from stoa.db.shards import Shards
from stoa.rest.cursors import encode_cursor, invalid_cursor
from stoa.rest.filters import Choices, Moment
from stoa.rest.headers import bearer_token
from stoa.rest.lists import ListOf, ListQuery, read_list
from stoa.rest.metadata import NO_DEFINITIONS
from stoa.rest.problems import AppSuspended, ExpiredToken, InvalidToken, Refusal
from stoa.rest.query_string import query_parameters, unknown_parameters
from stoa.settings import Settings, secret_key

STATUSES = ("installed", "uninstalled")
PARAMETERS = ("cursor", "limit", "status", "updated_since")
INSTALLATIONS = ListOf(
    filters={
        "status": Choices(values=STATUSES, description="One or more of these statuses. The default is both."),
        "updated_since": Moment(description="Installed, changed or uninstalled at or after this time."),
    },
    sorts={"id": int},
)
_EVER = datetime(2000, 1, 1, tzinfo=UTC)
_BOUND = "This token is limited to one store. Get one without `resource` from the service's own POST /oauth/token."


class _NoStore:
    """The list has no store; none of its filters needs one."""

    store_id = digits = 0
    definitions = NO_DEFINITIONS


def routes(database: Database, settings: Settings, shards: Shards | None = None) -> list[Route]:
    return [Route("/oauth/installations", Installations(database, settings, shards).respond, methods=["GET"])]


class Installations:
    """Lists installations for the app that a token or client credentials name."""

    def __init__(self, database: Database, settings: Settings, shards: Shards | None = None) -> None:
        self._db = database
        self._shards = shards
        self._settings = settings
        self._key = secret_key(settings)
        self._apps: TtlCache[str, int | Refusal] = TtlCache(self._find_app, seconds=TTL_S)

    async def respond(self, request: Request) -> Response:
        request_id = request_id_of(request)
        headers = {**SAFE, "X-Request-Id": request_id}
        try:
            app_id = await self._app(request, request_id)
            body = await self._list(request, app_id)
        except Unavailable:
            return oauth_refused(TemporarilyUnavailable(), headers)
        except OAuthError as error:
            return oauth_refused(error, headers)
        except Refusal as refusal:
            return self._refused(request, refusal, request_id, headers)
        return Response(body, headers=headers, media_type="application/json")

    async def _app(self, request: Request, request_id: str) -> int:
        """The calling app: by a token that is not limited to one store, or by its client credentials."""
        authorization = request.headers.get("authorization", "")
        if authorization[:6].lower() == "basic ":
            given = read_credentials(authorization, {})
            app_id, client = await authenticate(
                self._db, self._key, given, peer=peer_of(request), request_id=request_id
            )
            if client.app_status != "active":
                raise AppSuspended
            return app_id
        token = bearer_token(dict(request.headers.raw))
        found = self._apps.cached(token)
        if found is None:
            if not is_access_token(token):
                raise InvalidToken
            found = await self._apps.find(token)
        if isinstance(found, Refusal):
            raise found
        return found

    async def _find_app(self, token: str) -> tuple[int | Refusal, float]:
        owner = await TOKEN_OWNER.maybe(self._db, keyed_hashes(self._key, token))
        if owner is None:
            return InvalidToken(), 0
        if owner.seconds_left <= 0:
            return ExpiredToken(), 0
        if owner.app_status != "active":
            return AppSuspended(), 0
        if owner.store_id is not None:
            return InvalidToken(_BOUND), 0
        return owner.app_id, owner.seconds_left

    async def _list(self, request: Request, app_id: int) -> bytes:
        query = _read(request.scope["query_string"])
        filters = dict(zip(query.shape.filters, query.values, strict=True))
        after = query.after[0] if query.after else 0
        since, statuses = filters.get("updated_since", _EVER), filters.get("status", list(STATUSES))
        everywhere = Everywhere(self._db, self._shards)
        rows = await INSTALLATIONS_PAGE.all(everywhere, app_id, after, since, statuses, query.limit + 1)
        if everywhere.away:  # an incomplete page would hide installations, and its cursor would skip them
            raise TemporarilyUnavailable(away=sorted(everywhere.away))
        shown = rows[: query.limit]
        last = shown[-1].store_id if len(rows) > query.limit else None
        cursor = encode_cursor(query.of_list, query.given, [last], backwards=False) if last is not None else None
        service = self._urls(request).service
        page: dict[str, Any] = {
            "data": [_listed(row, service) for row in shown],
            "meta": {"limit": query.limit, "next_cursor": cursor},
        }
        return msgspec.json.encode(page)

    def _refused(self, request: Request, refusal: Refusal, request_id: str, headers: dict[str, str]) -> Response:
        origin = self._urls(request).service
        body = refusal.body(origin=origin, instance=request.scope["path"], request_id=request_id)
        challenge = {"WWW-Authenticate": 'Bearer realm="stoa"'} if refusal.status == 401 else {}
        return Response(body, refusal.status, {**headers, **challenge}, media_type="application/problem+json")

    def _urls(self, request: Request) -> ServiceUrls:
        return ServiceUrls(request.url.scheme, request.headers.get("host", ""), self._settings.public_url)


def _read(query_string: bytes) -> ListQuery:
    """The parameters of the list: fewer than a list of a store has, because its order is fixed and it has no total."""
    given = query_parameters(query_string, INSTALLATIONS.sets)
    if unknown := [name for name in given if name not in PARAMETERS]:
        raise unknown_parameters("list", unknown, dict.fromkeys(PARAMETERS, ()))
    query = read_list(INSTALLATIONS, query_string, _NoStore(), "/oauth/installations")
    if query.shape.backwards:
        raise invalid_cursor()
    return query


def _listed(row: InstallationRow, service: str) -> ListedInstallation:
    store = StoreDetails(
        row.store_id, row.handle, row.name, base_url(service, row.handle), row.currency, row.timezone, row.locale
    )
    return ListedInstallation(store, row.scopes, row.status, row.installed_at, row.updated_at)
