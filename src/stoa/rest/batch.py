"""Batches: many items in one request, all or nothing or each for itself, answered item by item."""

from collections.abc import Sequence
from typing import Any, Generic, Literal, TypeVar

import msgspec

from stoa.rest.problems import Fault, Refusal, counted

T = TypeVar("T")
Mode = Literal["atomic", "independent"]
Outcome = Literal["created", "updated", "unchanged", "deleted", "failed"]


class BatchFailed(Refusal):
    """Items of an atomic batch have faults of several kinds; nothing was written, `errors` names them all."""

    status, code, title = 422, "batch_failed", "The batch has faults"


class TooManyItems(Refusal):
    """The batch has more items than this endpoint takes."""

    status, code, title = 413, "too_many_items", "Too many items"


class ItemError(msgspec.Struct, omit_defaults=True):
    """Why an item failed: the same words as a problem of its own would have."""

    code: str
    title: str
    status: int
    detail: str
    errors: list[Fault] = []


class ItemResult(msgspec.Struct, Generic[T]):
    """What became of one item."""

    index: int
    status: Outcome
    id: int | None = None
    resource: T | None = None
    error: ItemError | None = None


class Batch(msgspec.Struct, Generic[T]):
    """The answer to a batch: one result for each item, in the order they came."""

    results: list[ItemResult[msgspec.Raw]]

    @property
    def failed(self) -> int:
        return sum(result.status == "failed" for result in self.results)

    def body(self) -> bytes:
        counts = {"total": len(self.results), "succeeded": len(self.results) - self.failed, "failed": self.failed}
        return msgspec.json.encode({"data": self.results, "meta": counts})


def done(index: int, status: Outcome, id_: int | None, doc: str | None) -> ItemResult[msgspec.Raw]:
    return ItemResult(index, status, id_, None if doc is None else msgspec.Raw(doc))


def failed(index: int, refusal: Refusal) -> ItemResult[msgspec.Raw]:
    """An item that could not be carried out; its faults keep their pointers, under the item's own."""
    faults = [msgspec.structs.replace(f, pointer=f"/items/{index}{f.pointer}") for f in refusal.faults]
    error = ItemError(refusal.code, refusal.title, refusal.status, refusal.detail, faults)
    return ItemResult(index, "failed", error=error)


def refuse_all(refusals: Sequence[tuple[int, Refusal]]) -> Refusal:
    """One refusal for an atomic batch: of the items' own kind where all agree, with a pointer to each item."""
    faults: list[Fault] = []
    for index, refusal in refusals:
        if refusal.faults:
            faults += [msgspec.structs.replace(f, pointer=f"/items/{index}{f.pointer}") for f in refusal.faults]
        else:
            faults.append(Fault(f"/items/{index}", refusal.code, refusal.detail, refusal.members or None))
    kinds = {type(refusal) for _, refusal in refusals}
    words = f"Faults in {counted(len(refusals), 'item')}; nothing was written."
    if len(kinds) == 1:
        return next(iter(kinds))(words, faults=faults)
    return BatchFailed(words, faults=faults)


def check_size(items: Sequence[Any], most: int) -> None:
    if len(items) > most:
        raise TooManyItems(f"A batch has at most {most} items here.", max_items=most)
