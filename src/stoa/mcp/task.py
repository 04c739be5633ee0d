"""What the declaration of a tool for models consists of."""

from typing import Any, Literal

import msgspec

Preset = Literal["catalog", "orders", "support"]


class Shape(msgspec.Struct, frozen=True):
    """The result: a resource and the fields that are returned unless the model asks for others."""

    component: str
    fields: tuple[str, ...]
    whole: bool = False  # all fields are returned; `fields` are those that the output schema names
    many: bool = False  # the result is a list, although the operation has no `limit`


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A tool. An argument is a parameter or a member of the body, by its name or as `name=target`.

    A target such as `tracking.number` is a nested member, and `items.0.sku` a member of the only item of a list.
    """

    name: str
    operation: str
    description: str
    presets: tuple[Preset, ...]
    arguments: str
    result: Shape
    required: tuple[str, ...] = ()  # besides those that the operation requires
    fixed: dict[str, Any] = {}  # targets with a value that the model does not choose
    only: dict[str, tuple[str, ...]] = {}  # the members of the items of a list that are offered
    describe: dict[str, str] = {}  # where the description of the operation does not fit
    schemas: dict[str, str] = {}  # the member of a component, where the body of the operation leaves the type open
    dry_run: bool = False
