"""Credentials are recognized without a database query, and reveal nothing once hashed."""

import re
import string

from hypothesis import assume, given
from hypothesis import strategies as st

from stoa.access.credentials import (
    hint,
    is_access_token,
    is_client_id,
    keyed_hash,
    new_access_token,
    new_client_id,
    new_client_secret,
    same,
)
from stoa.secret_keys import Keys

KEYS = Keys(b"a" * 32)

TOKEN = new_access_token()


def test_every_credential_consists_of_letters_digits_and_underscores() -> None:
    for made in (new_client_id(), new_client_secret(), new_access_token()):
        assert re.fullmatch(r"[A-Za-z0-9_]+", made)


def test_every_credential_has_the_prefix_of_its_kind() -> None:
    assert new_client_id().startswith("stoa_ci_")
    assert new_client_secret().startswith("stoa_cs_")
    assert new_access_token().startswith("stoa_at_")


def test_the_random_part_holds_256_bits() -> None:
    assert 62 ** (len(TOKEN) - len("stoa_at_") - 6) >= 2**256
    assert len({new_access_token() for _ in range(1_000)}) == 1_000


def test_a_new_token_is_recognized() -> None:
    assert all(is_access_token(new_access_token()) for _ in range(100))


def test_a_client_secret_is_not_a_token() -> None:
    assert not is_access_token(new_client_secret())


@given(st.integers(0, len(TOKEN) - 1), st.sampled_from(string.ascii_letters + string.digits + "_"))
def test_a_token_with_one_character_changed_is_refused_offline(at: int, character: str) -> None:
    assume(TOKEN[at] != character)
    assert not is_access_token(TOKEN[:at] + character + TOKEN[at + 1 :])


@given(st.integers(0, len(TOKEN) - 1), st.characters())
def test_a_token_with_any_character_changed_is_refused_offline(at: int, character: str) -> None:
    assume(TOKEN[at] != character)
    assert not is_access_token(TOKEN[:at] + character + TOKEN[at + 1 :])


@given(st.integers(0, len(TOKEN) - 2))
def test_a_token_with_two_neighbours_swapped_is_refused_offline(at: int) -> None:
    assume(TOKEN[at] != TOKEN[at + 1])
    assert not is_access_token(TOKEN[:at] + TOKEN[at + 1] + TOKEN[at] + TOKEN[at + 2 :])


@given(st.text(max_size=100))
def test_any_other_text_is_refused_offline(text: str) -> None:
    assert not is_access_token(text)


@given(st.text(max_size=80))
def test_a_client_id_that_is_looked_up_is_always_short_plain_text(text: str) -> None:
    assert is_client_id(text) == bool(re.fullmatch(r"[A-Za-z0-9_]{1,64}", text))


def test_hashes_are_equal_only_for_the_same_text_and_key() -> None:
    assert same(keyed_hash(KEYS, TOKEN), keyed_hash(KEYS, TOKEN))
    assert not same(keyed_hash(KEYS, TOKEN), keyed_hash(Keys(b"b" * 32), TOKEN))
    assert not same(keyed_hash(KEYS, TOKEN), keyed_hash(KEYS, new_access_token()))


@given(st.text())
def test_any_text_can_be_hashed(text: str) -> None:
    assert len(keyed_hash(KEYS, text)) == 32


def test_a_hint_is_the_last_four_characters() -> None:
    assert hint("stoa_cs_abcdefgh") == "efgh"
