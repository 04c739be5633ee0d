"""The address at which a program with a deploy token reads, compares and pushes the file of its app."""

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stoa.access.addresses import ServiceUrls
from stoa.access.contract import AccessRefused
from stoa.access.deploy_tokens import Bearer, bearer_of
from stoa.access.oauth import SAFE, request_id_of
from stoa.access.operator import Operator, find_app
from stoa.accounts.contract import RIGHTS, Right
from stoa.accounts.ownership import owned_app
from stoa.app_file.contract import MOST_BYTES
from stoa.app_file.push import push, registered, tag_of
from stoa.app_file.reading import read_file, with_lines
from stoa.app_file.writing import write_file
from stoa.db.errors import Unavailable, cause
from stoa.db.fan_out import Everywhere
from stoa.db.pool import Database
from stoa.db.shards import Shards
from stoa.rest.body import read_body
from stoa.rest.checks import validation_failed
from stoa.rest.headers import bearer_token
from stoa.rest.problems import (
    AppSuspended,
    Fault,
    InvalidParameter,
    InvalidToken,
    MalformedRequest,
    Refusal,
    ServiceUnavailable,
    UnsupportedMediaType,
    ValidationFailed,
)
from stoa.rest.query_string import query_parameters, unknown_parameters
from stoa.settings import Settings

PATH, MEDIA_TYPE = "/oauth/app", "application/toml"
_FLAGS = ("confirm", "dry_run")
_TOKEN = "Send a deploy token of the app. Its developers create one in the portal, under Credentials."  # noqa: S105


def routes(database: Database, settings: Settings, shards: Shards | None = None) -> list[Route]:
    return [Route(PATH, AppFiles(database, settings, shards).respond, methods=["GET", "PUT"])]


class AppFiles:
    """Answers for the app that a deploy token names; no address and no body can name another one."""

    def __init__(self, database: Database, settings: Settings, shards: Shards | None = None) -> None:
        self._db = database
        self._shards = shards
        self._settings = settings

    async def respond(self, request: Request) -> Response:
        request_id = request_id_of(request)
        headers = {**SAFE, "X-Request-Id": request_id}
        try:
            everywhere = Everywhere(self._db, self._shards)
            by = Operator(self._db, self._settings, actor="visitor", request_id=request_id, everywhere=everywhere)
            bearer = await self._bearer(by, request)
            by.actor = f"deploy-token:{bearer.token_id}"
            return await (self._put if request.method == "PUT" else self._get)(by, bearer, request, headers)
        except Unavailable as error:
            structlog.get_logger().error("the database is unavailable", request_id=request_id, **cause(error))
            return self._refused(request, ServiceUnavailable(), request_id, headers)
        except Refusal as refusal:
            return self._refused(request, refusal, request_id, headers)

    async def _bearer(self, by: Operator, request: Request) -> Bearer:
        found = await bearer_of(by, self._db, bearer_token(dict(request.headers.raw)))
        if found is None:
            raise InvalidToken(_TOKEN)
        if found.app_status != "active":
            raise AppSuspended
        return found

    async def _get(self, by: Operator, bearer: Bearer, request: Request, headers: dict[str, str]) -> Response:
        _flags(request, ())
        file = await registered(by.db, await find_app(by.db, bearer.client_id))
        tag = {"ETag": f'"{tag_of(file)}"'}
        return Response(write_file(file), headers={**headers, **tag}, media_type=f"{MEDIA_TYPE}; charset=utf-8")

    async def _put(self, by: Operator, bearer: Bearer, request: Request, headers: dict[str, str]) -> Response:
        flags = _flags(request, _FLAGS)
        text = await _read(request)
        file = read_file(text, webhook_allow=self._settings.webhook_allow)
        try:
            pushed = await push(
                by,
                bearer.client_id,
                file,
                account_id=await self._developer(bearer),
                dry_run="dry_run" in flags,
                confirmed="confirm" in flags,
                seen=request.headers.get("if-match", "").strip('"'),
            )
        except ValidationFailed as refusal:
            raise with_lines(text, refusal) from refusal
        except AccessRefused as refusal:  # a limit that another change has reached meanwhile
            raise validation_failed([Fault("", "invalid_format", str(refusal))]) from refusal
        return Response(msgspec.json.encode({"data": pushed}), headers=headers, media_type="application/json")

    async def _developer(self, bearer: Bearer) -> int | None:
        """The account that created the token, while it may change the app: its development stores follow the file."""
        app = await find_app(self._db, bearer.client_id)
        owned = await owned_app(self._db, bearer.account_id, app.id) if bearer.account_id is not None else None
        return bearer.account_id if owned and RIGHTS.get(owned.role, Right.VIEW) >= Right.CHANGE else None

    def _refused(self, request: Request, refusal: Refusal, request_id: str, headers: dict[str, str]) -> Response:
        service = ServiceUrls(request.url.scheme, request.headers.get("host", ""), self._settings.public_url).service
        body = refusal.body(origin=service, instance=PATH, request_id=request_id)
        challenge = {"WWW-Authenticate": 'Bearer realm="stoa"'} if refusal.status == 401 else {}
        own = {name.decode(): value.decode() for name, value in refusal.headers}
        return Response(body, refusal.status, {**headers, **own, **challenge}, media_type="application/problem+json")


def _flags(request: Request, known: tuple[str, ...]) -> set[str]:
    """The parameters that are true."""
    given = query_parameters(request.scope["query_string"])
    if unknown := [name for name in given if name not in known]:
        raise unknown_parameters("app", unknown, dict.fromkeys(known, ()))
    for name, value in given.items():
        if value not in ("true", "false"):
            raise InvalidParameter(f"{name} must be true or false.")
    return {name for name, value in given.items() if value == "true"}


async def _read(request: Request) -> str:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != MEDIA_TYPE:
        raise UnsupportedMediaType(f"Send the file as {MEDIA_TYPE}.")
    raw = await read_body(request.receive, dict(request.headers.raw), most=MOST_BYTES)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedRequest("The file is not encoded in UTF-8.") from error
