"""One request to the portal: the signed-in account, the app or store in the path, and the database."""

import re
import secrets
from copy import copy
from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from starlette.requests import Request

from stoa.access.operator import Operator
from stoa.access.queries import STORE_BY_HANDLE
from stoa.accounts.contract import RIGHTS, CurrentAnnouncement, OwnedApp, OwnedStore, Right, SessionAccount
from stoa.accounts.devices import device_token
from stoa.db.fan_out import Everywhere
from stoa.db.pool import Database
from stoa.portal.kit.cookies import Cookies
from stoa.portal.kit.csrf import form_token
from stoa.portal.kit.forms import SubmittedForm
from stoa.portal.kit.multipart import UploadedFile
from stoa.portal.kit.notices import Notice
from stoa.secret_keys import Keys
from stoa.settings import Settings

THEMES = ("system", "light", "dark")
EVENT_STREAM = "text/event-stream"
_UNATTENDED = "x-unattended"
_MAX_QUERY_LENGTH, MAX_URL_LENGTH = 500, 4000
_PORT = re.compile(r":\d+\Z")
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1", "testserver")


class Visit:
    """The context of a request. `app` and `store` are set if the path names them; the account then has a role there."""

    app: OwnedApp
    store: OwnedStore

    def __init__(
        self, request: Request, everywhere: Everywhere, settings: Settings, key: Keys, request_id: str
    ) -> None:
        self.request = request
        self.everywhere = everywhere  # for what many stores have
        self.directory = everywhere.directory  # for what belongs to the account
        self.db = everywhere.directory  # the database of the store in the path, if there is one
        self.settings = settings
        self.request_id = request_id
        self.cookies = Cookies(request, settings)
        self.received_session = self.session = self.cookies.read("session")
        self.account: SessionAccount | None = None
        self.submitted: SubmittedForm | None = None
        self.to_confirm = ""  # what a submitted form would do, which its page shows before it is submitted again
        self.upload: UploadedFile | None = None  # the file of a form that may have one
        self.notice: Notice | None = None
        self.nonce = secrets.token_urlsafe(16)
        self.new_session = ""
        self.page_url = ""  # the GET address of the page, also if a form is the response
        self.shows_secret = False
        self.unread = 0  # notifications
        self.announcements: list[CurrentAnnouncement] = []
        self.changed_stores: set[int] = set()  # stores with new events to deliver
        self._key = key

    @property
    def me(self) -> SessionAccount:
        """The signed-in account; only on pages that require one."""
        assert self.account is not None  # noqa: S101 - guaranteed by the page's audience
        return self.account

    @property
    def zone(self) -> tzinfo:
        """The time zone of the store in the path; UTC if the machine lacks it."""
        try:
            return ZoneInfo(self.store.timezone)
        except (ZoneInfoNotFoundError, ValueError):
            return UTC

    @property
    def by(self) -> Operator:
        """The actor for operations of access and accounts; audit logs name it by account number."""
        actor = f"account:{self.account.account_id}" if self.account else "visitor"
        return Operator(self.db, self.settings, actor=actor, request_id=self.request_id, everywhere=self.everywhere)

    @property
    def origin(self) -> str:
        """The base URL of the service, for apps."""
        host = self.request.headers.get("host", "")
        return self.settings.public_url.rstrip("/") or f"{self.request.scope['scheme']}://{host}"

    @property
    def peer(self) -> str:
        return self.request.client.host if self.request.client else ""

    @property
    def agent(self) -> str:
        return self.request.headers.get("user-agent", "")

    @property
    def device(self) -> str:
        """The token by which this browser is recognized at a sign-in; a new one if it has none."""
        return device_token(self.cookies.read("device"))

    @property
    def unattended(self) -> bool:
        """Whether an open page sent the request by itself; such requests do not extend the session."""
        headers = self.request.headers
        return _UNATTENDED in headers or EVENT_STREAM in headers.get("accept", "")

    @property
    def wants_json(self) -> bool:
        """Whether a script sent the request, such as the console of the API reference."""
        return self.request.headers.get("accept", "").startswith("application/json")

    @property
    def unencrypted(self) -> bool:
        """Whether the browser sends passwords over a network without TLS."""
        host = _PORT.sub("", self.request.headers.get("host", "")).strip("[]").lower()
        return not self.cookies.secure and host not in _LOCAL_HOSTS and not host.endswith(".localhost")

    @property
    def theme(self) -> str:
        theme = self.cookies.read("theme")
        return theme if theme in THEMES else THEMES[0]

    def at(self, store: OwnedStore, db: Database) -> "Visit":
        """The same request at a store that the path does not name, and on which the account has a role."""
        there = copy(self)
        there.store, there.db = store, db
        return there

    async def open(self, handle: str) -> None:
        """Read from the database of a store that an app or an operator names; if there is none, nothing changes."""
        if not self.directory.fenced:
            return
        found = await STORE_BY_HANDLE.maybe(self.directory, handle)
        self.db = self.directory if found is None else await self.everywhere.database(found.shard)

    def path_param(self, name: str) -> Any:
        return self.request.path_params[name]

    def query(self, name: str, *, most: int = _MAX_QUERY_LENGTH) -> str:
        """Return a query parameter; empty if it is missing, too long or not printable."""
        value = self.request.query_params.get(name, "")
        return value if len(value) <= most and value.isprintable() else ""

    @property
    def query_string(self) -> str:
        """The query of the URL as it was sent, for a form that keeps the filters of its page."""
        return self.request.scope["query_string"].decode("ascii", "replace")

    def token(self) -> str:
        """Return a form token; a guest gets an anonymous session to bind it to."""
        if not self.session:
            self.session = self.new_session = secrets.token_urlsafe(32)
        return form_token(self._key, self.session)

    def form_key(self) -> str:
        """Return a new key of a form that is carried out once."""
        return secrets.token_urlsafe(16)

    def may(self, right: Right) -> bool:
        """Whether the account's roles on everything that the path names have this right."""
        owned = [getattr(self, name) for name in ("app", "store") if hasattr(self, name)]
        return all(RIGHTS.get(each.role, Right.VIEW) >= right for each in owned)

    def has_samples(self, store: OwnedStore) -> bool:
        """Whether sample orders disturb nobody in a store: a development store, or every store of a demo."""
        return store.development or self.settings.demo

    def may_change(self) -> bool:
        return self.may(Right.CHANGE)
