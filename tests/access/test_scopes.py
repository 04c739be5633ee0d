"""The effective scopes of a token: the requested ones, limited to the granted ones."""

from hypothesis import given
from hypothesis import strategies as st

from stoa.access.contract import SCOPES
from stoa.access.rules import expanded, in_force, listed, ordered
from stoa.rest.call import Caller

scope_lists = st.lists(st.sampled_from(list(SCOPES)), unique=True)


def test_the_scopes_are_in_the_order_of_the_contract() -> None:
    assert list(SCOPES) == [
        "products:read",
        "products:write",
        "inventory:read",
        "inventory:write",
        "orders:read",
        "orders:write",
        "orders:import",
        "customers:read",
        "customers:write",
        "customers:erase",
        "webhooks:read",
        "webhooks:write",
    ]


def test_write_includes_only_read_of_the_same_resource() -> None:
    assert expanded(["orders:write"]) == {"orders:write", "orders:read"}
    assert expanded(["orders:read"]) == {"orders:read"}
    assert expanded(["customers:erase"]) == {"customers:erase"}


def test_a_token_without_requested_scopes_has_all_granted_ones() -> None:
    assert in_force(None, ["orders:write"]) == {"orders:write", "orders:read"}


def test_a_grant_narrowed_to_read_leaves_a_write_token_its_read() -> None:
    assert in_force(["orders:write"], ["orders:read"]) == {"orders:read"}


@given(scope_lists, scope_lists)
def test_a_token_never_has_more_than_was_requested_or_granted(requested: list[str], granted: list[str]) -> None:
    effective = in_force(requested, granted)
    assert effective <= expanded(requested)
    assert effective <= expanded(granted)


@given(scope_lists, scope_lists)
def test_listed_scopes_include_every_effective_scope(requested: list[str], granted: list[str]) -> None:
    assert expanded(listed(requested, granted)) == in_force(requested, granted)


@given(scope_lists)
def test_granted_scopes_are_listed_as_requested(requested: list[str]) -> None:
    assert listed(requested, list(SCOPES)) == ordered(requested)


@given(scope_lists, st.sampled_from(list(SCOPES)))
def test_a_caller_has_exactly_the_effective_scopes(granted: list[str], scope: str) -> None:
    caller = Caller(1, "app", in_force(None, granted), 1, 1)
    assert caller.may(scope) == (scope in in_force(None, granted))
