"""Batches: many items in one request, applied atomically or independently, with one result per item."""

from collections.abc import Mapping, Sequence
from typing import Generic, Literal, TypeVar

import msgspec

from stoa.rest.checks import MOST_FAULTS
from stoa.rest.problems import Fault, Refusal, ValidationFailed, counted

T = TypeVar("T")
Mode = Literal["atomic", "independent"]
Outcome = Literal["created", "updated", "unchanged", "deleted", "failed"]


class BatchFailed(Refusal):
    """The items of an atomic batch failed for different reasons. Nothing was written; `errors` names every fault."""

    status, code, title = 422, "batch_failed", "The batch failed"


class TooManyItems(Refusal):
    """The batch has more items than this endpoint accepts."""

    status, code, title = 413, "too_many_items", "Too many items"


class ItemError(msgspec.Struct, omit_defaults=True):
    """Why an item failed, in the terms of a problem document."""

    code: str
    title: str
    status: int
    detail: str
    errors: list[Fault] = []


class ItemResult(msgspec.Struct, Generic[T]):
    """The result of one item."""

    index: int
    status: Outcome
    id: int | None = None
    resource: T | None = None
    error: ItemError | None = None


class Batch(msgspec.Struct, Generic[T]):
    """The response to a batch: one result per item, in the order of the request."""

    results: list[ItemResult[msgspec.Raw]]

    @property
    def failed(self) -> int:
        return sum(result.status == "failed" for result in self.results)

    @property
    def resources(self) -> list[msgspec.Raw]:
        return [result.resource for result in self.results if result.resource is not None]

    def body(self) -> bytes:
        counts = {"total": len(self.results), "succeeded": len(self.results) - self.failed, "failed": self.failed}
        return msgspec.json.encode({"data": self.results, "meta": counts})


def done(index: int, status: Outcome, id_: int | None, doc: str | None) -> ItemResult[msgspec.Raw]:
    return ItemResult(index, status, id_, None if doc is None else msgspec.Raw(doc))


def failed(index: int, refusal: Refusal) -> ItemResult[msgspec.Raw]:
    error = ItemError(refusal.code, refusal.title, refusal.status, refusal.detail, _item_faults(index, refusal))
    return ItemResult(index, "failed", error=error)


def _item_faults(index: int, refusal: Refusal) -> list[Fault]:
    """The faults of an item, with pointers that start at the body of the batch."""
    return [msgspec.structs.replace(f, pointer=f"/items/{index}{f.pointer}") for f in refusal.faults]


def refuse_all(refusals: Sequence[tuple[int, Refusal]]) -> Refusal:
    """One refusal for an atomic batch: of the items' type if all have the same, else `BatchFailed`."""
    faults: list[Fault] = []
    for index, refusal in refusals:
        whole_item = Fault(f"/items/{index}", refusal.code, refusal.detail, refusal.members or None)
        faults += _item_faults(index, refusal) or [whole_item]
    types = {type(refusal) for _, refusal in refusals}
    type_ = types.pop() if len(types) == 1 else BatchFailed
    return type_(f"{counted(len(refusals), 'item')} failed; nothing was written.", faults=faults[:MOST_FAULTS])


def numbered(items: Sequence[T], refused: Mapping[int, Refusal], most: int) -> list[tuple[int, T | Refusal]]:
    """All items of a batch in the order sent: valid ones, and the refusals of invalid ones. Checks their number."""
    count = len(items) + len(refused)
    if not count:
        raise ValidationFailed(
            "A batch must have items.", faults=[Fault("/items", "out_of_range", "must not be empty")]
        )
    if count > most:
        raise TooManyItems(f"A batch may have at most {most} items.", max_items=most)
    valid = iter(items)
    return [(index, refused[index] if index in refused else next(valid)) for index in range(count)]
