"""The rows that stored functions read: each column list in a function matches the struct that Python fills."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from datetime import date, datetime
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pytest

import stoa
from stoa.db.migrate import Function, functions
from stoa.db.query import InputRow

TYPES: dict[str, type] = {
    "bigint": int, "integer": int, "smallint": int, "text": str, "boolean": bool, "bytea": str, "tsvector": str,
    "timestamptz": datetime, "date": date, "json": msgspec.Raw, "double precision": float,
}  # fmt: skip
FUNCTIONS = {function.name: function for function in functions()}
MOST_ARGUMENTS = 15


def _below(parent: type[InputRow]) -> Iterator[type[InputRow]]:
    for child in parent.__subclasses__():
        yield child
        yield from _below(child)


def row_types() -> list[type[InputRow]]:
    for module in pkgutil.walk_packages(stoa.__path__, "stoa."):
        if module.name != "stoa.__main__":
            importlib.import_module(module.name)
    return [row for row in _below(InputRow) if row.arguments]


ROWS = [(row, argument) for row in row_types() for argument in row.arguments]


def _plain(kind: Any) -> Any:
    """The type of a field without None; a literal is a string."""
    if get_origin(kind) in (Union, UnionType):
        kinds = [each for each in get_args(kind) if each is not NoneType]
        kind = kinds[0] if len(kinds) == 1 else kind
    return str if get_origin(kind) is Literal else kind


def column_lists(function: Function, argument: str) -> list[dict[str, str]]:
    """The columns that a function reads from one JSON argument, one dict per use of the argument."""
    found = re.findall(rf"json_to_recordset\({argument}\)\s+AS\s+\w+\s*\(([^)]*)\)", function.sql)
    return [dict(column.split(None, 1) for column in map(str.strip, each.split(","))) for each in found]


def arguments(function: Function) -> list[str]:
    """The input arguments of a function, as written."""
    signature = re.sub(r"--[^\n]*", "", function.sql).partition("(")[2]
    depth, listed = 1, ""
    for letter in signature:
        depth += (letter == "(") - (letter == ")")
        if not depth:
            break
        listed += letter
    return [each.strip() for each in listed.split(",") if each.strip() and not each.strip().startswith("OUT ")]


@pytest.mark.parametrize(("row", "argument"), ROWS, ids=[argument for _, argument in ROWS])
def test_a_row_type_matches_its_function(row: type[InputRow], argument: str) -> None:
    name, _, parameter = argument.partition(".")
    lists = column_lists(FUNCTIONS[name], parameter)
    fields = {field.name: _plain(field.type) for field in msgspec.structs.fields(row)}
    assert lists, f"{name} never reads {parameter}"
    for columns in lists:
        for column, kind in columns.items():
            assert TYPES[kind] == fields.get(column), f"{column} is {kind} in {name}"
    assert {column for columns in lists for column in columns} == set(fields), "the function does not read a field"


def test_every_json_argument_has_a_row_type() -> None:
    declared = {argument for _, argument in ROWS}
    taken = {
        f"{name}.{argument.split()[0]}"
        for name, function in FUNCTIONS.items()
        for argument in arguments(function)
        if argument.split()[1:] == ["json"] and not function.pure
    }
    assert taken == declared


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=lambda function: function.name)
def test_a_function_takes_few_arguments(function: Function) -> None:
    assert len(arguments(function)) <= MOST_ARGUMENTS
