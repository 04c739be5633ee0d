"""The outbox: one row for each event, committed with the change that it describes."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from stoa.db.query import Command, Executor, json_of
from stoa.ids import new_id

# The changes of an event from which a person was erased: no changes, and the space tells the router that it has read the event before.
ERASED_CHANGES = "{ }"


class Actor(msgspec.Struct, omit_defaults=True):
    """The originator of a change: an app by its id, a person on a page of the portal, an operator, or Stoa itself."""

    type: Annotated[
        str,
        Meta(
            description="`app`, `account` (a person on a page of the portal), `operator`, or `system` (Stoa itself). Further values may follow."
        ),
    ]
    app_id: Annotated[int | None, Meta(description="The id of the app; omitted for all others.")] = None


class Cause(msgspec.Struct, frozen=True):
    """The request behind a change, and the app or the person that sent it; without either, an operator caused the change."""

    app_id: int | None
    request_id: str
    account_id: int | None = None

    @property
    def actor(self) -> Actor:
        if self.app_id is not None:
            return Actor("app", self.app_id)
        return Actor("operator" if self.account_id is None else "account")

    @property
    def audited_as(self) -> str:
        """The actor as recorded in the audit log."""
        if self.app_id is not None:
            return f"app:{self.app_id}"
        return "operator" if self.account_id is None else f"account:{self.account_id}"

    @property
    def actor_json(self) -> str:
        return msgspec.json.encode(self.actor).decode()


class AppView(msgspec.Struct, omit_defaults=True):
    """What one app sees of an event instead of these members of `data` and `changes`, such as its own metadata."""

    data: dict[str, Any] = {}
    changes: dict[str, Any] = {}


def views_json(views: Mapping[int, AppView]) -> str | None:
    """The views of single apps as they are stored; null if every app sees the same."""
    return json_of(views) if views else None


class Event(msgspec.Struct):
    """A change of a resource. Each type is a subclass with its name and the scope that a subscriber needs."""

    name: ClassVar[str] = ""
    scope: ClassVar[str] = ""
    resource_type: ClassVar[str] = ""
    resource: ClassVar[type[Any] | None] = None  # what `data` is; its JSON Schema follows from it
    full_scope: ClassVar[str] = ""  # if set, a subscriber without this second scope sees only basic_fields of `data`
    basic_fields: ClassVar[frozenset[str]] = frozenset()
    recorded: ClassVar[frozenset[str]] = (
        frozenset()
    )  # fields of `data` whose changes cause the event; empty if it is no update
    unrecorded: ClassVar[frozenset[str]] = frozenset()  # paths within these fields whose changes do not
    changed_paths: ClassVar[Mapping[str, str]] = {}  # of members of `changes` with another name than in `data`
    app_only: ClassVar[bool] = False  # only the endpoints of apps receive it; subscriptions cannot select it
    known: ClassVar[dict[str, type["Event"]]] = {}

    resource_id: int
    version: int
    data: str  # the resource's document, as callers see it
    changes: dict[str, tuple[Any, Any]]
    views: Mapping[int, AppView] = {}  # by app id

    @classmethod
    def subscribable(cls) -> dict[str, type["Event"]]:
        """The events that a subscription can select, by name."""
        return {name: event for name, event in Event.known.items() if not event.app_only}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.name:
            Event.known[cls.name] = cls


INSERT = Command(
    """INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id,
                           app_views)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"""
)


async def emit(db: Executor, store_id: int, event: Event, *, actor: Actor, request_id: str) -> None:
    """Insert an event, in the transaction of its change."""
    await INSERT.run(
        db,
        store_id,
        new_id("evt"),
        event.name,
        event.resource_type,
        event.resource_id,
        event.version,
        msgspec.json.encode(actor).decode(),
        msgspec.json.encode(event.changes).decode(),
        event.data,
        request_id,
        views_json(event.views),
    )
