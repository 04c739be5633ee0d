"""Which scopes are in force: what was asked for, within what is granted."""

from hypothesis import given
from hypothesis import strategies as st

from stoa.access.contract import SCOPES
from stoa.access.rules import as_listed, expanded, in_force, ordered
from stoa.rest.endpoint import Caller

scope_lists = st.lists(st.sampled_from(list(SCOPES)), unique=True)


def test_the_scopes_stand_in_the_order_of_the_contract() -> None:
    assert list(SCOPES) == [
        "products:read",
        "products:write",
        "inventory:read",
        "inventory:write",
        "orders:read",
        "orders:write",
        "customers:read",
        "customers:write",
        "customers:erase",
        "webhooks:read",
        "webhooks:write",
    ]


def test_write_includes_read_of_the_same_noun_and_nothing_else() -> None:
    assert expanded(["orders:write"]) == {"orders:write", "orders:read"}
    assert expanded(["orders:read"]) == {"orders:read"}
    assert expanded(["customers:erase"]) == {"customers:erase"}


def test_a_token_that_asked_for_nothing_has_all_that_is_granted() -> None:
    assert in_force(None, ["orders:write"]) == {"orders:write", "orders:read"}


def test_a_grant_narrowed_to_read_leaves_a_write_token_its_read() -> None:
    assert in_force(["orders:write"], ["orders:read"]) == {"orders:read"}


@given(scope_lists, scope_lists)
def test_a_token_never_has_more_than_was_asked_or_granted(asked: list[str], granted: list[str]) -> None:
    force = in_force(asked, granted)
    assert force <= expanded(asked)
    assert force <= expanded(granted)


@given(scope_lists, scope_lists)
def test_listing_scopes_leaves_out_no_right(asked: list[str], granted: list[str]) -> None:
    assert expanded(as_listed(asked, granted)) == in_force(asked, granted)


@given(scope_lists)
def test_what_was_asked_and_granted_is_listed_as_it_was_asked(asked: list[str]) -> None:
    assert as_listed(asked, list(SCOPES)) == ordered(asked)


@given(scope_lists, st.sampled_from(list(SCOPES)))
def test_a_caller_may_do_exactly_what_is_in_force(granted: list[str], scope: str) -> None:
    caller = Caller(1, "app", in_force(None, granted), 1, 1)
    assert caller.may(scope) == (scope in in_force(None, granted))
