"""Responses: resources with the response they came in, pages, and batch results."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar, cast

import httpx
import msgspec

from stoa_client.answer import Answer
from stoa_client.decoding import convert, decode
from stoa_client.errors import Fault, NotModified, UnexpectedAnswer

T = TypeVar("T")


def absent() -> Any:
    """The default of a field that is not in the response, because `fields` or `include` did not request it."""
    return msgspec.UNSET


class Model(msgspec.Struct, kw_only=True, dict=True):
    """A resource, or a part of one; fields that a newer service adds are ignored."""

    @property
    def answer(self) -> Answer:
        """The response in which this resource came."""
        try:
            return self._answer
        except AttributeError:
            raise ValueError("this resource was part of another response") from None

    def attach(self, answer: Answer) -> None:
        self._answer = answer


def etag_of(resource: Model) -> str | None:
    """The ETag of a resource that came in a response of its own; a part of a page or a batch has none."""
    answer: Answer | None = vars(resource).get("_answer")
    return answer and answer.etag


class Tombstone(Model):
    """A deleted resource in a list that was requested with `include_deleted`."""

    id: int
    deleted_at: datetime
    version: int
    updated_at: datetime | None = None  # of services before 3.2


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list."""

    data: list[T]
    answer: Answer

    @property
    def meta(self) -> dict[str, Any]:
        return self.answer.meta

    @property
    def total(self) -> int:
        """The exact number of resources on all pages."""
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
    """The result of one item of a batch."""

    index: int
    status: str
    """created, updated, unchanged, deleted or failed."""
    id: int | None = None
    resource: T | None = None
    error: ItemError | None = None


class Batch(msgspec.Struct, Generic[T]):
    """The results of a batch, in the order in which the items were sent."""

    data: list[Item[T]]
    answer: Answer

    @property
    def meta(self) -> dict[str, Any]:
        return self.answer.meta

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


def decoded(response: httpx.Response, kind: Any) -> Any:
    """The body as this type; raises NotModified or UnexpectedAnswer."""
    if response.status_code == 304:
        raise NotModified(Answer(304, response.headers, {}))
    if response.status_code >= 300:
        raise unexpected(response)
    try:
        return decode(response.content, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise unexpected(response) from error


def unexpected(response: httpx.Response) -> UnexpectedAnswer:
    """The exception for a response that the service does not send."""
    return UnexpectedAnswer(f"{response.status_code} with an unexpected body", response.status_code, response.content)


def refuse_body(response: httpx.Response) -> None:
    """Refuse anything but the empty response to a call that returns nothing."""
    if response.status_code != 204:
        raise unexpected(response)


def check_media(response: httpx.Response, media_type: str) -> None:
    """Refuse a streamed response in another format, such as the page of a proxy; its body has not been read."""
    received = response.headers.get("content-type", "")
    if response.status_code != 200 or received.partition(";")[0].strip().lower() != media_type:
        message = f"{response.status_code} with {received or 'no content type'} instead of {media_type}"
        raise UnexpectedAnswer(message, response.status_code)


def read_one(response: httpx.Response, kind: type[T]) -> T:
    """One resource, with the response that it came in."""
    envelope = cast("_Envelope[T]", decoded(response, _Envelope[kind]))
    if isinstance(envelope.data, Model):
        envelope.data.attach(_answer(response, envelope))
    return envelope.data


def read_any(response: httpx.Response) -> Any:
    """The body as plain values, or None if there is none."""
    return None if response.status_code == 204 else decoded(response, Any)


def read_batch(response: httpx.Response, kind: type[T]) -> Batch[T]:
    envelope = cast("_Envelope[list[Item[T]]]", decoded(response, _Envelope[list[Item[kind]]]))
    return Batch(envelope.data, _answer(response, envelope))


def _answer(response: httpx.Response, envelope: _Envelope[Any]) -> Answer:
    return Answer(response.status_code, response.headers, envelope.meta, response.content)


def read_page(response: httpx.Response, kind: type[T], *, tombstones: bool = False) -> Page[T]:
    """A page; with `tombstones`, items that were deleted become tombstones."""
    if not tombstones:
        envelope = cast("_Envelope[list[T]]", decoded(response, _Envelope[list[kind]]))
        return Page(envelope.data, _answer(response, envelope))
    raw = cast("_Envelope[list[dict[str, Any]]]", decoded(response, _Envelope[list[dict[str, Any]]]))
    kinds = [Tombstone if _is_tombstone(each) else kind for each in raw.data]
    try:
        read: list[Any] = [convert(each, into) for each, into in zip(raw.data, kinds, strict=True)]
    except msgspec.ValidationError as error:
        raise unexpected(response) from error
    return Page(read, _answer(response, raw))


def _is_tombstone(members: Mapping[str, Any]) -> bool:
    return members.get("deleted_at") is not None


def as_row(line: bytes, kind: type[T], *, tombstones: bool = False) -> T:
    """A resource of a stream; with `tombstones`, one that was deleted becomes a tombstone."""
    try:
        if not tombstones:
            return decode(line, kind)
        members: dict[str, Any] = decode(line, dict[str, Any])
        return cast("T", convert(members, Tombstone if _is_tombstone(members) else kind))
    except msgspec.DecodeError as error:
        raise UnexpectedAnswer("a line of the stream is not the expected resource", 200, line[:200]) from error


class Lines:
    """Splits chunks of bytes into lines; only a newline ends a line."""

    def __init__(self) -> None:
        self._partial = b""

    def feed(self, part: bytes) -> list[bytes]:
        *complete, self._partial = (self._partial + part).split(b"\n")
        return [line for line in complete if line]

    def rest(self) -> list[bytes]:
        return [self._partial] if self._partial else []
