"""Merge patch (RFC 7396) over arbitrary JSON."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stoa.rest.patch import changes_between, merge

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}  # pyright: ignore[reportUnknownVariableType]
    return value


@given(OBJECTS)
def test_an_empty_patch_changes_nothing(target: dict[str, Any]) -> None:
    assert merge(target, {}) == target


@given(OBJECTS, OBJECTS)
def test_a_patch_applied_twice_is_a_patch_applied_once(target: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge(target, patch)
    assert merge(once, patch) == once
    assert changes_between(once, merge(once, patch)) == {}


@given(OBJECTS, OBJECTS)
def test_omitted_members_stay_and_null_members_are_removed(target: dict[str, Any], patch: dict[str, Any]) -> None:
    before = dict(target)
    result = merge(target, patch)
    assert target == before, "the target itself is not touched"
    for name, value in target.items():
        if name not in patch:
            assert result[name] == value
    for name, value in patch.items():
        if value is None:
            assert name not in result
        elif not isinstance(value, dict):
            assert result[name] == value


@given(OBJECTS)
def test_a_patch_of_an_empty_object_is_itself_without_nulls(patch: dict[str, Any]) -> None:
    assert merge({}, patch) == without_nulls(patch)


@given(OBJECTS, OBJECTS)
@example({"a": [{"b": True}]}, {"a": [{"b": 1}]})
def test_changes_name_exactly_what_differs_as_json(before: dict[str, Any], after: dict[str, Any]) -> None:
    changes = changes_between(before, after)
    for name in {*before, *after}:
        old, new = (json.dumps(each.get(name), sort_keys=True) for each in (before, after))
        assert (name in changes) == (old != new)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({"a": "foo"}, "bar", "bar"),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_rfc(target: Any, patch: Any, result: Any) -> None:
    assert merge(target, patch) == result
