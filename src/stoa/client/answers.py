"""What comes back: resources that know the answer they came with, pages, and the results of a batch."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Generic, TypeVar, cast

import httpx
import msgspec

from stoa.client.errors import Fault, NotModified, UnexpectedAnswer

T = TypeVar("T")


class Answer(msgspec.Struct, frozen=True):
    """The answer around a resource: its status, headers and `meta`."""

    status: int
    headers: httpx.Headers
    meta: dict[str, Any]

    @property
    def etag(self) -> str | None:
        return self.headers.get("etag")

    @property
    def request_id(self) -> str | None:
        return self.headers.get("x-request-id")

    @property
    def replayed(self) -> bool:
        """Whether this is the answer to an earlier try with the same key."""
        return self.headers.get("idempotent-replayed") == "true"

    @property
    def requests_left(self) -> int | None:
        """How many more requests the store takes from this app just now."""
        left = self.headers.get("x-ratelimit-remaining", "")
        return int(left) if left.isdecimal() else None


def absent() -> Any:
    """The default of a field that was not in the answer, because `fields` or `include` did not ask for it."""
    return msgspec.UNSET


class Model(msgspec.Struct, kw_only=True, dict=True):
    """A resource, or a part of one; fields that a newer service adds are passed over."""

    @property
    def answer(self) -> Answer:
        """The answer that brought this resource by itself."""
        try:
            return self._answer
        except AttributeError:
            raise ValueError("it came as a part of another answer") from None

    def came_in(self, answer: Answer) -> None:
        self._answer = answer


class Tombstone(Model):
    """What is left of a deleted resource in a list that was asked for them."""

    id: int
    deleted_at: datetime
    version: int


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list."""

    data: list[T]
    meta: dict[str, Any]

    @property
    def total(self) -> int:
        """How many there are in all, exactly."""
        return self.meta["total"]

    @property
    def next_cursor(self) -> str | None:
        return self.meta.get("next_cursor")

    @property
    def prev_cursor(self) -> str | None:
        return self.meta.get("prev_cursor")

    def __iter__(self) -> Iterator[T]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)


class ItemError(msgspec.Struct):
    """Why an item of a batch failed."""

    code: str
    title: str
    status: int
    detail: str
    errors: list[Fault] = []


class Item(msgspec.Struct, Generic[T]):
    """What became of one item of a batch."""

    index: int
    status: str
    """created, updated, unchanged, deleted or failed."""
    id: int | None = None
    resource: T | None = None
    error: ItemError | None = None


class Batch(msgspec.Struct, Generic[T]):
    """What became of a batch, item by item in the order they were sent."""

    data: list[Item[T]]
    meta: dict[str, Any]

    @property
    def failures(self) -> list[Item[T]]:
        return [item for item in self.data if item.status == "failed"]

    def __iter__(self) -> Iterator[Item[T]]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)


class _Envelope(msgspec.Struct, Generic[T]):
    data: T
    meta: dict[str, Any] = {}


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def _decoded(response: httpx.Response, kind: Any) -> Any:
    if response.status_code == 304:
        raise NotModified("it is as it was")
    try:
        return _decoder(kind).decode(response.content)
    except msgspec.DecodeError as error:
        raise UnexpectedAnswer(f"{response.status_code} with a body that is not as described: {error}") from error


def read_one(response: httpx.Response, kind: type[T]) -> T:
    """One resource, with the answer that it came in."""
    envelope = cast("_Envelope[T]", _decoded(response, _Envelope[kind]))
    if isinstance(envelope.data, Model):
        envelope.data.came_in(Answer(response.status_code, response.headers, envelope.meta))
    return envelope.data


def read_batch(response: httpx.Response, kind: type[T]) -> Batch[T]:
    return _decoded(response, Batch[kind])


def read_page(response: httpx.Response, kind: type[T], *, tombstones: bool = False) -> Page[T]:
    """A page; where deleted ones were asked for, what has nothing but the members of a tombstone is one."""
    if not tombstones:
        envelope = cast("_Envelope[list[T]]", _decoded(response, _Envelope[list[kind]]))
        return Page(envelope.data, envelope.meta)
    raw = cast("_Envelope[list[dict[str, Any]]]", _decoded(response, _Envelope[list[dict[str, Any]]]))
    kinds = [Tombstone if _is_tombstone(each) else kind for each in raw.data]
    read: list[Any] = [msgspec.convert(each, into) for each, into in zip(raw.data, kinds, strict=True)]
    return Page(read, raw.meta)


def _is_tombstone(members: Mapping[str, Any]) -> bool:
    return set(members) == {"id", "deleted_at", "version"} and members["deleted_at"] is not None


class Lines:
    """Lines of what arrives in parts; a line ends with a newline and nothing else, whatever its text holds."""

    def __init__(self) -> None:
        self._begun = b""

    def of(self, part: bytes) -> list[bytes]:
        *whole, self._begun = (self._begun + part).split(b"\n")
        return [line for line in whole if line]

    def rest(self) -> list[bytes]:
        return [self._begun] if self._begun else []
