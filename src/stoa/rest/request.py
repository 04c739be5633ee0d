"""A request as the dispatcher sees it, in the terms of ASGI, and what telemetry records of it."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, Protocol

import msgspec

from stoa.rest.call import Call, Caller, Store
from stoa.rest.limits import Allowance, RateLimiter
from stoa.rest.problems import Fault

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
Peer = tuple[str, int]  # the address and port at the other end of a connection: of a client, or of a proxy


class Request(msgspec.Struct, eq=False):
    """A request on its way through the dispatcher."""

    method: str
    path: str
    query: bytes
    receive: Receive
    sub_path: str  # after the API's prefix
    base: str  # the path up to and including the API's prefix
    request_id: str
    handle: str = ""  # of the store, if the path names it
    host: str = ""
    origin: str = ""
    headers: dict[bytes, bytes] = {}
    store: Store | None = None
    caller: Caller | None = None
    operation: str = ""  # the name of its endpoint
    notices: Headers = []  # headers of every response of the endpoint
    allowance: Allowance | None = None
    received: bool = False  # whether its body is being read, which is possible only once
    call: Call | None = None  # set once the handler runs
    code: str = ""
    error: BaseException | None = None
    faults: Sequence[Fault] = ()
    shed: str = ""
    refused_app_id: int | None = None  # the app behind a token that is refused


class Observed(msgspec.Struct):
    """What telemetry records of a request."""

    request_id: str
    method: str
    operation: str
    status: int
    code: str
    seconds: float  # until the server has the response, without the time that the caller asked to wait
    store_id: int | None
    app_id: int | None
    error: BaseException | None
    faults: Sequence[Fault] = ()
    of_api: bool = True  # False for pages, documentation and tokens
    shed: str = ""  # why the request was shed
    path: str = ""  # as sent, so it may contain personal data; only the request log reads it, and keeps its known words
    shard: str = ""  # of the store


class Access(Protocol):
    """Finds the store and the caller of a request; passed to the dispatcher."""

    async def store(
        self,
        *,
        handle: str = "",
        host: str = "",
        headers: Mapping[bytes, bytes] = ...,
        limiter: RateLimiter | None = None,
    ) -> Store | None: ...

    async def find_again(self, *, handle: str = "", host: str = "") -> Store | None: ...

    async def caller(self, store: Store, token: str) -> Caller: ...
