"""Applies adjustments of stock: those of concurrent requests in one statement, unless they need one of their own."""

from collections.abc import Sequence
from itertools import takewhile

import msgspec

from stoa.db.query import Executor, json_of
from stoa.events.outbox import Actor
from stoa.inventory import queries
from stoa.inventory.contract import (
    MOST_ITEMS,
    Adjustment,
    Adjustments,
    InsufficientStock,
    LedgerEntry,
    StaleQuantity,
)
from stoa.inventory.queries import LATER, Move, Moved
from stoa.products.stock_locations import DEFAULT_LOCATION
from stoa.rest.batch import Batch, ItemResult, done, failed, numbered, refuse_all
from stoa.rest.call import Call
from stoa.rest.group_commit import RefusedCalls
from stoa.rest.problems import Fault, Refusal, ValidationFailed

Outcome = Batch[LedgerEntry] | Refusal | None


class Request(msgspec.Struct):
    """The items of one call by their index, and the refusals of those that contradict themselves."""

    call: Call
    body: Adjustments
    items: dict[int, Adjustment]
    refusals: dict[int, Refusal]

    @property
    def atomic(self) -> bool:
        return self.body.mode == "atomic"

    @property
    def alone(self) -> bool:
        """Whether the call needs a statement of its own, because items fail by themselves or are known to fail."""
        return not self.atomic or bool(self.refusals)


async def adjust_all(db: Executor, calls: Sequence[tuple[Call, Adjustments]]) -> list[Outcome]:
    """Apply the adjustments of several calls to one store, each as if it came after those before it.

    None is a call that changes a product which an earlier one changes, or that must wait for another reason: it runs again
    after the commit.
    """
    requests = [_read(call, body) for call, body in calls]
    together = list(takewhile(lambda each: not each.alone, requests))
    outcomes = await _apply_together(db, together) if together else [await _apply_alone(db, requests[0])]
    return [*outcomes, *[None] * (len(requests) - len(outcomes))]


def _read(call: Call, body: Adjustments) -> Request:
    request = Request(call, body, {}, {})
    for index, item in numbered(body.items, call.refused_items, MOST_ITEMS):
        refusal = item if isinstance(item, Refusal) else _contradiction(item)
        if refusal is not None:
            request.refusals[index] = refusal
        elif not isinstance(item, Refusal):
            request.items[index] = item
    return request


async def _apply_together(db: Executor, requests: Sequence[Request]) -> list[Outcome]:
    """Apply all calls, or none if one fails: then the others run again without it."""
    moved = iter(await _move(db, requests, atomic=True))
    outcomes: list[Outcome] = []
    for request in requests:
        results = {index: next(moved) for index in request.items}
        if any(each.outcome == LATER for each in results.values()):
            outcomes.append(None)
            continue
        refusals = _refusals(request, results)
        outcomes.append(refuse_all(sorted(refusals.items())) if refusals else _batch(results, {}))
    if any(isinstance(each, Refusal) for each in outcomes):
        return [each if isinstance(each, Refusal) else None for each in outcomes]
    return outcomes


async def _apply_alone(db: Executor, request: Request) -> Outcome:
    """Apply one call. If it must fail as a whole after items were applied, the transaction is rolled back."""
    results = dict(zip(request.items, await _move(db, [request], atomic=request.atomic), strict=True))
    refusals = request.refusals | _refusals(request, results)
    if refusals and request.atomic:
        raise RefusedCalls({request.call: refuse_all(sorted(refusals.items()))})
    return _batch(results, refusals)


async def _move(db: Executor, requests: Sequence[Request], *, atomic: bool) -> list[Moved]:
    first = requests[0].call
    moves: list[Move] = []
    for number, request in enumerate(requests):
        own = [_movement(item, request, number) for item in request.items.values()]
        request.call.costs_documents(await queries.large_variants(db, first.store_id, own))
        moves += own
    actor = Actor(first.kind, first.app_id)
    return await queries.move_stock(db, first.store_id, moves, atomic=atomic, actor=actor, request_id=first.request_id)


def _refusals(request: Request, results: dict[int, Moved]) -> dict[int, Refusal]:
    found = {index: _refusal(item, results[index]) for index, item in request.items.items()}
    return {index: refusal for index, refusal in found.items() if refusal is not None}


def _batch(results: dict[int, Moved], refusals: dict[int, Refusal]) -> Batch[LedgerEntry]:
    return Batch(
        [
            failed(index, refusals[index]) if index in refusals else _moved(index, results[index])
            for index in sorted({*refusals, *results})
        ]
    )


def _contradiction(item: Adjustment) -> Refusal | None:
    """The refusal of an item that does not name its variant by exactly one key, or whose fields do not fit its `op`."""
    faults: list[Fault] = []
    if item.variant_id is None and item.sku is None:
        faults.append(Fault("/variant_id", "required", "is required unless sku is given"))
    elif item.variant_id is not None and item.sku is not None:
        faults.append(Fault("/sku", "invalid_format", "specify either variant_id or sku, not both"))
    if item.op != "transfer":
        if item.to_location is not None:
            faults.append(Fault("/to_location", "invalid_format", "must not be sent unless op is transfer"))
    elif item.to_location is None:
        faults.append(Fault("/to_location", "required", "is required if op is transfer"))
    else:
        if item.to_location == (item.location or DEFAULT_LOCATION):
            faults.append(Fault("/to_location", "invalid_format", "must be another location than location"))
        if item.quantity < 1:
            faults.append(Fault("/quantity", "out_of_range", "must be at least 1 if op is transfer"))
    return ValidationFailed("The item is invalid.", faults=faults) if faults else None


def _moved(index: int, moved: Moved) -> ItemResult[msgspec.Raw]:
    return done(index, "updated" if moved.movement_id else "unchanged", moved.movement_id, moved.doc)


def _movement(item: Adjustment, request: Request, number: int) -> Move:
    call, body = request.call, request.body
    return Move(
        call=number,
        actor=json_of(Actor(call.kind, call.app_id)),
        request_id=call.request_id,
        variant_id=item.variant_id,
        sku=item.sku,
        kind=item.op,
        location=item.location,
        to_location=item.to_location,
        absolute=item.op == "set",
        on_hand=item.quantity,
        expected=item.compare_quantity,
        reason=item.reason or body.reason,
        reference=item.reference or body.reference,
    )


def _refusal(item: Adjustment, moved: Moved) -> Refusal | None:
    """The reason why an item was not applied, with the values that the caller needs to correct it."""
    match moved.outcome:
        case "unknown" if item.sku is not None:
            fault = Fault("/sku", "unknown_sku", "no variant of this store has this SKU")
            return ValidationFailed("The SKU does not exist.", faults=[fault])
        case "unknown":
            fault = Fault("/variant_id", "unknown_variant", "no variant of this store has this id")
            return ValidationFailed("The variant does not exist.", faults=[fault])
        case "unknown_location":
            return _unknown_location("/location")
        case "unknown_target":
            return _unknown_location("/to_location")
        case "stale":
            words = f"on_hand is {moved.on_hand}, not {item.compare_quantity}"
            fault = Fault("/compare_quantity", StaleQuantity.code, words, {"on_hand": moved.on_hand})
            return StaleQuantity(f"{words}.", faults=[fault])
        case "insufficient":
            words = f"available is {moved.available} and cannot fall below 0"
            fault = Fault("/quantity", InsufficientStock.code, words, {"available": moved.available})
            return InsufficientStock(f"{words}.", faults=[fault])
        case _:
            return None


def _unknown_location(at: str) -> Refusal:
    fault = Fault(at, "unknown_location", "no active location of this store has this code")
    return ValidationFailed("The location does not exist or is inactive.", faults=[fault])
