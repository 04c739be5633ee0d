"""One visit to a page: who is there, what they own at this address, and the way to the database."""

import re
import secrets
from typing import Any

from starlette.requests import Request

from stoa.access.operator import Operator
from stoa.accounts.contract import OwnedApp, OwnedStore, SignedIn
from stoa.db.pool import Database
from stoa.portal.forms import Filled
from stoa.portal.guard import Cookies, Notice, form_token
from stoa.settings import Settings

EVENT_STREAM = "text/event-stream"
UNATTENDED = "x-unattended"
_LONGEST_PARAMETER = 500
_PORT = re.compile(r":\d+\Z")
_LOCAL = ("localhost", "127.0.0.1", "::1", "testserver")


class Visit:
    """What a handler knows of the request. `app` and `store` are set where the path names one, and then are owned."""

    app: OwnedApp
    store: OwnedStore

    def __init__(self, request: Request, db: Database, settings: Settings, key: bytes, request_id: str) -> None:
        self.request = request
        self.db = db
        self.settings = settings
        self.request_id = request_id
        self.cookies = Cookies(request, settings)
        self.came_with = self.session = self.cookies.read("session")
        self.person: SignedIn | None = None
        self.filled: Filled | None = None
        self.notice: Notice | None = None
        self.nonce = secrets.token_urlsafe(16)
        self.new_session = ""
        self.here = ""  # where a page that answers a form can be opened again
        self.shows_secret = False
        self.changed: set[int] = set()  # the stores whose couriers are to hear of it
        self._key = key

    @property
    def me(self) -> SignedIn:
        """Whoever is signed in; only on pages for persons."""
        assert self.person is not None  # noqa: S101 - the page's `who` has seen to it
        return self.person

    @property
    def by(self) -> Operator:
        """The one who acts, for the verbs of access and accounts; the audit log names them by number."""
        actor = f"account:{self.person.account_id}" if self.person else "visitor"
        return Operator(self.db, self.settings, actor=actor, request_id=self.request_id)

    @property
    def origin(self) -> str:
        """The service's address as this person's apps should use it."""
        host = self.request.headers.get("host", "")
        return self.settings.public_url.rstrip("/") or f"{self.request.scope['scheme']}://{host}"

    @property
    def peer(self) -> str:
        return self.request.client.host if self.request.client else ""

    @property
    def agent(self) -> str:
        return self.request.headers.get("user-agent", "")

    @property
    def unattended(self) -> bool:
        """Whether an open page asks by itself: that keeps nobody signed in."""
        headers = self.request.headers
        return UNATTENDED in headers or EVENT_STREAM in headers.get("accept", "")

    @property
    def exposed(self) -> bool:
        """Whether what is typed here crosses a network in the clear."""
        host = _PORT.sub("", self.request.headers.get("host", "")).strip("[]").lower()
        return not self.cookies.secure and host not in _LOCAL and not host.endswith(".localhost")

    @property
    def theme(self) -> str:
        theme = self.cookies.read("theme")
        return theme if theme in ("light", "dark") else "system"

    def place(self, name: str) -> Any:
        """What stands in the path for {name}."""
        return self.request.path_params[name]

    def query(self, name: str) -> str:
        """A parameter of the address; what nobody could have meant counts as left out."""
        value = self.request.query_params.get(name, "")
        return value if len(value) <= _LONGEST_PARAMETER and value.isprintable() else ""

    def token(self) -> str:
        """A token for a form of this visit; somebody without a session is given a nameless one to bind it to."""
        if not self.session:
            self.session = self.new_session = secrets.token_urlsafe(32)
        return form_token(self._key, self.session)

    def may_change(self) -> bool:
        """Whether this person may do more than look at what the path names."""
        owned = [getattr(self, name) for name in ("app", "store") if hasattr(self, name)]
        return all(each.role == "owner" for each in owned)
