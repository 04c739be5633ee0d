"""The life of a portal request, from cookie to HTML, in one file that reads from top to bottom."""

import gzip
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from stoa.access.contract import AccessRefused, TooManyAttempts
from stoa.accounts.announcements import current_announcements
from stoa.accounts.ownership import owned_store
from stoa.accounts.passwords import PasswordQueueFull
from stoa.accounts.sessions import find_session
from stoa.db.errors import Unavailable, cause
from stoa.db.fan_out import Everywhere
from stoa.db.pool import Database
from stoa.db.shards import Shards
from stoa.ids import new_id
from stoa.notifications.queries import UNREAD
from stoa.portal.kit import results
from stoa.portal.kit.admission import check_audience, check_open, check_right, find_owned
from stoa.portal.kit.assets import PATH as ASSETS
from stoa.portal.kit.assets import serve_asset
from stoa.portal.kit.csrf import is_form_token, is_same_origin
from stoa.portal.kit.error_pages import PageError, failure, not_found
from stoa.portal.kit.forms import (
    GUEST_BYTES,
    MAX_BYTES,
    TOKEN,
    FormError,
    MalformedForm,
    SubmittedForm,
    decode,
    read_form,
    redisplayed,
    sentence,
)
from stoa.portal.kit.multipart import is_multipart, read_multipart
from stoa.portal.kit.notices import LIFETIME_S, Notice, pack_notice, unpack_notice
from stoa.portal.kit.pages import ROOT, Form, Page, PageResponse, Redirect, View
from stoa.portal.kit.rendering import Renderer
from stoa.portal.kit.results import Result
from stoa.portal.kit.visit import Visit
from stoa.rest.headers import accepts_gzip
from stoa.rest.problems import RateLimited, ServiceUnavailable
from stoa.rest.uploads import RETRY_S, UploadFile, UploadSpace
from stoa.settings import Settings, secret_key

_CATCH_UP_S = 1.0  # how long a page waits for what a form changed
_MIN_GZIP_BYTES = 1_000
_YEAR_S = 365 * 24 * 60 * 60
_PAGE_POLICY = (
    "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'{1}; base-uri 'none'; frame-ancestors 'none'"
)
_FILE_POLICY = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
_SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: browsers would then send forms with the origin "null".
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=()",
}


class PageHandler:
    """Serves all declared pages and forms, and an error page if something goes wrong."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        pages: Sequence[Page],
        forms: Sequence[Form],
        navigation: Callable[[Visit], Any],
        uploads: UploadSpace,
        committed: Callable[[Database], Callable[[int], None]] = lambda _: lambda _: None,
        shards: Shards | None = None,
        collect: Callable[[Database], Awaitable[object]] | None = None,
    ) -> None:
        self._db = database
        self._shards = shards
        self._collect = collect  # brings the messages of a shard to the directory
        self._settings = settings
        self._key = secret_key(settings)
        self._pages = pages
        self._forms = forms
        self._uploads = uploads
        self._committed = committed  # called with each store that has new events to deliver
        self._renderer = Renderer(pages, forms, navigation)

    def routes(self) -> list[Route]:
        """Return one route for each path, for all of its methods, and a route that answers 404 for all other paths."""
        paths = dict.fromkeys([page.path for page in self._pages] + [form.path for form in self._forms])
        routes = [Route(f"{ASSETS}{{name}}", serve_asset)]
        for path in paths:
            page = next((each for each in self._pages if each.path == path), None)
            form = next((each for each in self._forms if each.path == path), None)
            methods = ["GET", *(["POST"] if form else [])]
            routes.append(Route(path, self._endpoint(page, form), methods=methods))
        routes.append(Route(f"{ROOT}/{{rest:path}}", self._endpoint(None, None), methods=["GET", "POST"]))
        return routes

    def _endpoint(self, page: Page | None, form: Form | None) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            visit = Visit(request, Everywhere(self._db, self._shards), self._settings, self._key, new_id("req"))
            # The address of a form shows its result, or else leads to the page of the form.
            target = form if request.method == "POST" else page or (form.page if form else None)
            try:
                result = await self._handle(visit, target)
            except Exception as error:  # noqa: BLE001 - every failure gets an error page
                result = failure(visit, error)
            finally:
                if visit.upload is not None:
                    visit.upload.file.close()
            shown = page or (form.page if form else None)
            try:
                return self._response(visit, result, shown)
            except Exception as error:  # noqa: BLE001 - rendering can fail too
                return self._response(visit, failure(visit, error), shown)

        return respond

    async def _handle(self, visit: Visit, target: Page | Form | None) -> PageResponse:
        if isinstance(target, Form) and not is_same_origin(visit.request, self._settings.public_url):
            raise PageError(403, "Request blocked", "This form was sent from another site. Nothing was changed.")
        if visit.session:
            visit.account = await find_session(self._db, self._key, visit.session, touch=not visit.unattended)
            if visit.account is not None and not visit.unattended:
                visit.unread = await UNREAD.one(self._db, visit.account.account_id)
                visit.announcements = await current_announcements(self._db, visit.account.account_id)
        if target is None:
            if visit.request.scope["path"] == f"{ROOT}/":
                return Redirect(ROOT)
            raise not_found()
        redirect = check_audience(visit, target)
        if redirect is not None:
            return redirect
        if isinstance(target, Form) and target.upload:
            await self._find_owned(visit, target)  # before a large body is received
        values = await self._read_form(visit, target) if isinstance(target, Form) else {}
        await self._find_owned(visit, target)
        check_right(visit, target)
        if isinstance(target, Page):
            return await self._open(visit, target)
        return await self._submit(visit, target, values)

    async def _open(self, visit: Visit, page: Page) -> PageResponse:
        """Return the page, or the result of a form if the URL names one."""
        url = page.url(visit.request.path_params)
        if visit.account is not None and visit.query(results.PARAMETER):
            kept = await results.show(visit)
            if kept is None:
                return Redirect(url, "The result was already shown, or is more than ten minutes old.", "warn")
            return self._page(visit, kept, 200)
        return await page.handler(visit) if url == visit.request.scope["path"] else Redirect(url)

    async def _read_form(self, visit: Visit, form: Form) -> dict[str, list[str]]:
        """Read the form's fields, and its file if it may have one. The token is checked before the file is received."""

        def check_token(values: dict[str, list[str]]) -> None:
            if not is_form_token(self._key, visit.session, values.get(TOKEN, [""])[-1]):
                message = "This page is too old or belongs to another session. Go back, reload it and try again."
                raise PageError(403, "This form has expired", message)

        try:
            if form.upload and is_multipart(visit.request):
                owner = f"account:{visit.me.account_id}"
                new_file = partial(UploadFile, self._uploads, owner)
                values, visit.upload = await read_multipart(visit.request, check_token, new_file)
                return values
            values = await read_form(visit.request, MAX_BYTES if visit.account else GUEST_BYTES)
        except MalformedForm as error:
            raise PageError(400, "Invalid form", "The form could not be read. Nothing was changed.") from error
        except (RateLimited, ServiceUnavailable) as error:
            raise PageError(error.status, "Try again later", error.detail, retry_in_s=RETRY_S) from error
        check_token(values)
        return values

    async def _find_owned(self, visit: Visit, target: Page | Form) -> None:
        """Look up the app and the store in the path, and the shard of the store for what is shown from it."""
        await find_owned(visit, self._db)
        if isinstance(target, Page) or target.in_shard:
            follows_form = isinstance(target, Form) or bool(visit.cookies.read("notice"))
            await self._open_shard(visit, follows_form=follows_form)

    async def _open_shard(self, visit: Visit, *, follows_form: bool) -> None:
        """Serve the pages of a store from its shard, which has its figures. After a form, they show what the form changed."""
        if self._shards is None or not hasattr(visit, "store") or not visit.store.shard:
            return
        visit.db = await self._shards.database(visit.store.shard)
        if follows_form:
            with suppress(Unavailable):  # while replication is interrupted, the page is older
                await self._shards.catch_up(visit.store.shard, _CATCH_UP_S)
        store = await owned_store(visit.db, visit.me.account_id, visit.store.handle)
        figures = {"installations": store.installations} if store is not None else {}
        visit.store = msgspec.structs.replace(visit.store, **figures)

    async def _submit(self, visit: Visit, form: Form, values: dict[str, list[str]]) -> PageResponse:
        """Process the form, or show it again with every fault next to its field; a script gets only the faults."""
        retry_in_s, stale = 0, frozenset[str]()
        try:
            check_open(visit, form)
            fields = decode(form.fields, values)
            has_fields = bool(msgspec.structs.fields(form.fields))
            result = await (form.handler(visit, fields) if has_fields else form.handler(visit))
            for store_id in visit.changed_stores:
                self._committed(visit.db)(store_id)
            if visit.db is not self._db:
                await self._hand_over(visit.db)
            return await self._kept(visit, result, form.page) if isinstance(result, View) else result
        except FormError as error:
            faults, status, stale = error.faults, error.status, error.stale
        except TooManyAttempts as error:
            faults, status, retry_in_s = (
                {"": "Too many failed attempts. Wait a minute, then try again."},
                429,
                error.retry_in_s,
            )
        except PasswordQueueFull:
            faults, status, retry_in_s = {"": "Too many people are signing in. Try again in a few seconds."}, 503, 2
        except AccessRefused as error:
            faults, status = {"": sentence(error)}, 422
        if visit.wants_json:
            retry = {"Retry-After": str(retry_in_s)} if retry_in_s else {}
            return JSONResponse({"faults": faults}, status, headers=retry)
        shown = redisplayed(form.fields, values)
        visit.submitted = SubmittedForm(visit.request.scope["path"], shown, faults, stale)
        await self._open_shard(visit, follows_form=False)
        view = await form.page.handler(visit)
        if isinstance(view, View):
            view.status = status
            return self._response(visit, view, form.page, retry_in_s=retry_in_s)
        return view

    async def _hand_over(self, shard: Database) -> None:
        """Bring what a form caused in the directory there, before its page shows it. If that fails, a worker does it."""
        try:
            if self._collect is not None:
                await self._collect(shard)
        except Exception as error:  # noqa: BLE001 - the form is carried out
            structlog.get_logger().warning("messages to the directory wait", **cause(error))

    def _response(self, visit: Visit, result: PageResponse, page: Page | None, *, retry_in_s: int = 0) -> Response:
        if isinstance(result, Redirect):
            return self._redirect(visit, result)
        if isinstance(result, Response):
            headers = {**_SECURITY_HEADERS, "Content-Security-Policy": _FILE_POLICY, "X-Request-Id": visit.request_id}
            for name, value in headers.items():
                result.headers.setdefault(name, value)
            return result
        packed = visit.cookies.read("notice")
        visit.notice = unpack_notice(self._key, visit.received_session, packed) if packed else None
        response = self._page(visit, self._rendered(visit, result, page), result.status, result.returns_to)
        retry = retry_in_s or result.context.get("retry_in_s")
        if retry:
            response.headers["Retry-After"] = str(retry)
        if visit.new_session:
            visit.cookies.write(response, "session", visit.new_session)
        if packed:
            visit.cookies.write(response, "notice", "")
        return response

    def _rendered(self, visit: Visit, view: View, page: Page | None) -> Result:
        visit.page_url = page.url(visit.request.path_params) if page else ROOT
        visit.shows_secret = view.secret
        html = self._renderer.html(visit, view.template, view.context, page.nav if page else "")
        return Result(html, visit.nonce, view.secret)

    def _page(self, visit: Visit, result: Result, status: int, returns_to: str = "") -> Response:
        body = result.html.encode()
        policy = _PAGE_POLICY.format(result.nonce, f" {returns_to}" if returns_to else "")
        headers = {**_SECURITY_HEADERS, "Content-Security-Policy": policy, "X-Request-Id": visit.request_id}
        if visit.cookies.secure:
            headers["Strict-Transport-Security"] = f"max-age={_YEAR_S}"
        if not result.secret and len(body) >= _MIN_GZIP_BYTES and accepts_gzip(dict(visit.request.headers.raw)):
            headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding, Cookie"}
            body = gzip.compress(body, compresslevel=5, mtime=0)
        return HTMLResponse(body, status, headers)

    async def _kept(self, visit: Visit, view: View, page: Page) -> Redirect:
        """Keep the result of a form, and send the browser to it, so that a reload does not submit the form again."""
        url = await results.keep(visit, self._rendered(visit, view, page))
        return Redirect(url, session=visit.new_session or None)

    def _redirect(self, visit: Visit, redirect: Redirect) -> Response:
        response = RedirectResponse(redirect.to, 303, {**_SECURITY_HEADERS, "X-Request-Id": visit.request_id})
        if redirect.session is not None:
            visit.cookies.write(response, "session", redirect.session)
        if redirect.notice:
            session = visit.received_session if redirect.session is None else redirect.session
            packed = pack_notice(self._key, session, Notice(redirect.notice, redirect.tone))
            visit.cookies.write(response, "notice", packed, seconds=LIFETIME_S)
        if redirect.theme is not None:
            visit.cookies.write(response, "theme", redirect.theme, seconds=_YEAR_S)
        if redirect.device is not None:
            visit.cookies.write(response, "device", redirect.device, seconds=_YEAR_S)
        return response
