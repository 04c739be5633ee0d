"""The life of a visit to the portal, from cookie to page, in one file that reads from top to bottom."""

import gzip
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from stoa.access.addresses import is_handle
from stoa.access.contract import AccessRefused, TooManyTries
from stoa.accounts.ownership import owned_app, owned_store
from stoa.accounts.passwords import Crowded
from stoa.accounts.sessions import find_session
from stoa.db.errors import RETRYABLE, Unavailable, sqlstate
from stoa.db.pool import Database
from stoa.ids import new_id
from stoa.portal.assets import PATH as ASSETS
from stoa.portal.assets import serve_asset
from stoa.portal.forms import TOKEN, Filled, Unreadable, Wrong, decode, read_form, shown_again
from stoa.portal.guard import Notice, from_here, is_form_token, keep_notice, keep_theme, pack_notice, unpack_notice
from stoa.portal.pages import ROOT, Answer, Form, Page, Redirect, View, Who
from stoa.portal.rendering import Renderer
from stoa.portal.visit import Visit
from stoa.rest.request import ClientGone, accepts_gzip
from stoa.settings import Settings, secret_key
from stoa.telemetry import fault

SIGN_IN, SECOND_FACTOR = f"{ROOT}/sign-in", f"{ROOT}/second-factor"
_LARGEST_ID = 2**63
_PACK_FROM = 1_000
_POLICY = (
    "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_NO_PAGE = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
_SAFE = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: browsers would then send forms with an origin of "null".
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=()",
}


class Refused(Exception):
    """A visit that ends at a page of its own: not found, not allowed, out of order."""

    def __init__(self, status: int, title: str, words: str, *, retry_in_s: int = 0) -> None:
        super().__init__(title)
        self.status = status
        self.title = title
        self.words = words
        self.retry_in_s = retry_in_s


def not_found() -> Refused:
    """The same words for what never was and for what is somebody else's."""
    return Refused(404, "Nothing here", "There is no such page, or it is not yours to see.")


class Portal:
    """Answers every page and form that is declared, and with a page whatever goes wrong."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        pages: Sequence[Page],
        forms: Sequence[Form],
        navigation: Callable[[Visit], Any],
        committed: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._db = database
        self._settings = settings
        self._key = secret_key(settings)
        self._pages = pages
        self._forms = forms
        self._committed = committed  # is told the stores that a form has changed something in
        self._renderer = Renderer(pages, forms, navigation)

    def routes(self) -> list[Route]:
        """One route for each path, whatever methods it takes; and a page for every path that is none."""
        paths = dict.fromkeys([page.path for page in self._pages] + [form.path for form in self._forms])
        routes = [Route(f"{ASSETS}{{name}}", serve_asset)]
        for path in paths:
            page = next((each for each in self._pages if each.path == path), None)
            form = next((each for each in self._forms if each.path == path), None)
            methods = [*(["GET"] if page else []), *(["POST"] if form else [])]
            routes.append(Route(path, self._answering(page, form), methods=methods))
        routes.append(Route(f"{ROOT}/{{rest:path}}", self._answering(None, None), methods=["GET", "POST"]))
        return routes

    def _answering(self, page: Page | None, form: Form | None) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            visit = Visit(request, self._db, self._settings, self._key, new_id("req"))
            posted = request.method == "POST"
            try:
                answer = await self._visit(visit, form if posted else page)
            except ClientGone:
                return Response(status_code=400)  # nobody is left to read it
            except Refused as refusal:
                answer = _refusal(refusal)
            except Unavailable:
                words = "The service cannot reach its database just now. Try again in a moment."
                answer = _refusal(Refused(503, "One moment, please", words, retry_in_s=1))
            except Exception as error:  # noqa: BLE001 - whatever it is, a person gets a page
                answer = self._broken(visit, error)
            shown = page or (form.page if form else None)
            try:
                return self._response(visit, answer, shown)
            except Exception as error:  # noqa: BLE001 - a template may fail too
                return self._response(visit, self._broken(visit, error), shown)

        return respond

    async def _visit(self, visit: Visit, target: Page | Form | None) -> Answer:
        if isinstance(target, Form) and not from_here(visit.request, self._settings.public_url):
            raise Refused(403, "Not from here", "This form was sent by another site, so nothing was done.")
        if visit.session:
            visit.person = await find_session(self._db, self._key, visit.session, touch=not visit.unattended)
        if target is None:
            if visit.request.scope["path"] == f"{ROOT}/":
                return Redirect(ROOT)
            raise not_found()
        turned = _turned_away(visit, target)
        if turned is not None:
            return turned
        given = await self._given(visit) if isinstance(target, Form) else {}
        await self._find_owned(visit)
        if isinstance(target, Page):
            return await target.handler(visit)
        if not target.viewers and not visit.may_change():
            raise Refused(403, "Only to look at", "You may see this, but changing it is for its owner.")
        return await self._submit(visit, target, given)

    async def _given(self, visit: Visit) -> dict[str, list[str]]:
        """The form's fields, once its token proves that a page of this session holds it."""
        try:
            given = await read_form(visit.request)
        except Unreadable as error:
            raise Refused(400, "Not a form of ours", "What was sent cannot be read. Nothing was done.") from error
        if not is_form_token(self._key, visit.session, given.get(TOKEN, [""])[-1]):
            words = "This page was open for too long, or in another session. Go back, reload it and try again."
            raise Refused(403, "This form has expired", words)
        return given

    async def _find_owned(self, visit: Visit) -> None:
        """What the path names, if it is this person's to see. No handler can forget to ask."""
        places = visit.request.path_params
        for value in places.values():
            if (isinstance(value, int) and not 0 < value < _LARGEST_ID) or not str(value).isprintable():
                raise not_found()
        if "app_id" in places:
            app = await owned_app(self._db, visit.me.account_id, places["app_id"])
            if app is None:
                raise not_found()
            visit.app = app
        if "handle" in places:
            known = is_handle(places["handle"])
            store = await owned_store(self._db, visit.me.account_id, places["handle"]) if known else None
            if store is None:
                raise not_found()
            visit.store = store

    async def _submit(self, visit: Visit, form: Form, given: dict[str, list[str]]) -> Answer:
        """Do what the form asks, or show it again with every fault beside its field."""
        retry_in_s = 0
        try:
            fields = decode(form.fields, given)
            without = not msgspec.structs.fields(form.fields)
            answer = await (form.handler(visit) if without else form.handler(visit, fields))
            for store_id in visit.changed:
                self._committed(store_id)
            return answer
        except Wrong as wrong:
            faults, status = wrong.faults, wrong.status
        except TooManyTries as error:
            faults, status, retry_in_s = (
                {"": "Too many failed tries. Wait a minute, then try again."},
                429,
                error.retry_in_s,
            )
        except Crowded:
            faults, status, retry_in_s = {"": "Many people come in at this moment. Try again in a few seconds."}, 503, 2
        except AccessRefused as error:
            faults, status = {"": sentence(error)}, 422
        visit.filled = Filled(visit.request.scope["path"], shown_again(form.fields, given), faults)
        shown = await form.page.handler(visit)
        if isinstance(shown, View):
            shown.status = status
            return self._response(visit, shown, form.page, retry_in_s=retry_in_s)
        return shown

    def _response(self, visit: Visit, answer: Answer, page: Page | None, *, retry_in_s: int = 0) -> Response:
        if isinstance(answer, Redirect):
            return self._redirect(visit, answer)
        if isinstance(answer, Response):
            for name, value in {**_SAFE, "Content-Security-Policy": _NO_PAGE, "X-Request-Id": visit.request_id}.items():
                answer.headers.setdefault(name, value)
            return answer
        packed = visit.cookies.read("notice")
        visit.notice = unpack_notice(self._key, visit.came_with, packed) if packed else None
        visit.here = page.address(visit.request.path_params) if page else ROOT
        visit.shows_secret = answer.secret
        body = self._renderer.html(visit, answer.template, answer.context, page.under if page else "").encode()
        headers = {**_SAFE, "Content-Security-Policy": _POLICY.format(visit.nonce), "X-Request-Id": visit.request_id}
        retry = retry_in_s or answer.context.get("retry_in_s")
        if retry:
            headers["Retry-After"] = str(retry)
        if visit.cookies.secure:
            headers["Strict-Transport-Security"] = "max-age=31536000"
        if not answer.secret and len(body) >= _PACK_FROM and accepts_gzip(dict(visit.request.headers.raw)):
            headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding, Cookie"}
            body = gzip.compress(body, compresslevel=5, mtime=0)
        response = HTMLResponse(body, answer.status, headers)
        if visit.new_session:
            visit.cookies.write(response, "session", visit.new_session)
        if packed:
            visit.cookies.write(response, "notice", "")
        return response

    def _redirect(self, visit: Visit, answer: Redirect) -> Response:
        response = RedirectResponse(answer.to, 303, {**_SAFE, "X-Request-Id": visit.request_id})
        if answer.session is not None:
            visit.cookies.write(response, "session", answer.session)
        if answer.notice:
            session = visit.came_with if answer.session is None else answer.session
            keep_notice(visit.cookies, response, pack_notice(self._key, session, Notice(answer.notice, answer.tone)))
        if answer.theme is not None:
            keep_theme(visit.cookies, response, answer.theme)
        return response

    def _broken(self, visit: Visit, error: Exception) -> View:
        """What could not be done: two who met at the same row may simply try again, the rest is noted."""
        if sqlstate(error) in RETRYABLE:
            words = "Somebody else changed the same thing at this moment. Go back and try again."
            return _refusal(Refused(503, "One moment, please", words, retry_in_s=1))
        structlog.get_logger().error(
            "request",
            request_id=visit.request_id,
            method=visit.request.method,
            status=500,
            code="internal_error",
            **fault(error),
        )
        return _refusal(Refused(500, "Something broke", "It is our fault, and it was noted."))


def _turned_away(visit: Visit, target: Page | Form) -> Answer | None:
    """Where somebody is sent for whom the page is not."""
    person = visit.person
    signed_in = person is not None and person.stage == "signed in"
    halfway = person is not None and not signed_in
    match target.who:
        case Who.ANYONE:
            return None
        case Who.GUEST:
            return Redirect(ROOT) if signed_in else None
        case Who.HALFWAY:
            return None if halfway else Redirect(ROOT if signed_in else SIGN_IN)
        case Who.OPERATOR if person is not None and signed_in and not person.operator:
            raise not_found()
        case _ if signed_in:
            return None
        case _:
            if halfway:
                return Redirect(SECOND_FACTOR)
            if isinstance(target, Form):
                return Redirect(SIGN_IN, "Your session has ended. Sign in again; nothing was changed.", "warn")
            url = visit.request.scope["path"]
            return Redirect(SIGN_IN if url == ROOT else f"{SIGN_IN}?next={quote(url)}")


def _refusal(refusal: Refused) -> View:
    context = {"title": refusal.title, "words": refusal.words, "status": refusal.status}
    return View("refused.html", {**context, "retry_in_s": refusal.retry_in_s}, refusal.status)


def sentence(error: AccessRefused) -> str:
    """A refusal as a sentence for people."""
    words = str(error)
    return f"{words[:1].upper()}{words[1:]}."
