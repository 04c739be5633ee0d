"""Stored metadata equals one dictionary for each app, under any sequence of merges."""

from decimal import Decimal
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stoa.customers.documents import metadata_of, seen_by, shown_of
from stoa.customers.rules import merged
from stoa.rest.metadata_types import SHARED

APPS = (3, 30, 33)
keys = st.sampled_from(["tier", "a.b", "30", "0", "shared.tier", "shared.x", "shared", "_", "x-y"])
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=12).filter(lambda text: "\x00" not in text),
    st.sampled_from(['"', "\x1e", "\x1e3:", ",", "}", "\\", "0:", '","metadata":{']),
    st.decimals(-1000, 1000, places=3),
)
patches = st.lists(st.tuples(st.sampled_from(APPS), st.dictionaries(keys, values, max_size=5)), max_size=12)


@given(patches)
def test_each_app_sees_its_own_and_the_shared_keys_after_any_merges(history: list[tuple[int, dict[str, Any]]]) -> None:
    model: dict[int, dict[str, Any]] = {0: {}, **{app: {} for app in APPS}}
    stored = shown_of({})
    for app, patch in history:
        metadata, faults = merged(metadata_of(stored), patch, app, "")
        assert faults == []
        stored = shown_of(metadata)
        for key, value in patch.items():
            space = model[0 if key.startswith(SHARED) else app]
            space.pop(key, None)
            if value is not None:
                space[key] = value
    document = '{"id":1,"email":"x"' + stored + ',"orders_count":0}'
    page = f'{document},{{"id":2,"version":1}},{document}'.encode()
    for app in APPS:
        first, gone, second = msgspec.json.Decoder(list[dict[str, Any]], float_hook=Decimal).decode(
            b"[" + seen_by(page, app) + b"]"
        )
        assert first == second == {"id": 1, "email": "x", "metadata": {**model[0], **model[app]}, "orders_count": 0}
        assert gone == {"id": 2, "version": 1}


@given(st.dictionaries(keys, values, max_size=9), st.dictionaries(keys, values, max_size=9))
def test_merges_of_different_keys_commute(one: dict[str, Any], other: dict[str, Any]) -> None:
    apart = {key: value for key, value in other.items() if key not in one}
    first, _ = merged(merged({}, one, 3, "")[0], apart, 3, "")
    second, _ = merged(merged({}, apart, 3, "")[0], one, 3, "")
    assert first == second
