"""An app file is read and written, and each of its faults names its line and key."""

import difflib
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoa.app_file.contract import MOST_BYTES, AppFile
from stoa.app_file.lines import line_of, line_of_long_key, lines_of
from stoa.app_file.reading import read_file
from stoa.app_file.writing import write_file
from stoa.rest.problems import MOST_SUGGESTED, ValidationFailed
from stoa.webhooks.app_subscriptions import AppSubscription

FILE = """\
name = "Stock sync"
homepage = "https://stock.example.com"
endpoint = "https://stock.example.com/stoa"
return_urls = ["https://stock.example.com/installed"]

[scopes]
"products:read" = "To show your products."
"orders:read" = "To count what you sell."

[[subscriptions]]
name = "prices"
events = ["product.*"]
url = "https://stock.example.com/hooks"
changed = ["price"]

[[subscriptions]]
name = "paid"
events = ["order.payment_recorded"]
[subscriptions.filter]
currency = "EUR"
"total[gte]" = 10

[[keys]]
kty = "OKP"
crv = "Ed25519"
x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
kid = "key-1"
"""


def faults(text: str, webhook_allow: str | None = None) -> list[tuple[int | None, str, str]]:
    """The line, the pointer and the text of each fault."""
    with pytest.raises(ValidationFailed) as refused:
        read_file(text, webhook_allow=webhook_allow)
    return [((each.meta or {}).get("line"), each.pointer, each.detail) for each in refused.value.faults]


def test_a_file_describes_an_app_in_its_normal_form() -> None:
    file = read_file(FILE)
    assert list(file.scopes) == ["products:read", "orders:read"]
    assert file.subscriptions[1].filter == {"currency": "EUR", "total[gte]": "10"}
    assert file.keys == [
        {"kid": "key-1", "crv": "Ed25519", "kty": "OKP", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    ]
    assert read_file(write_file(file)) == file


@pytest.mark.parametrize(
    ("old", "new", "line", "pointer", "says"),
    [
        ('name = "Stock', 'nmae = "Stock', 1, "/nmae", "not a known field"),
        ("https://stock.example.com/stoa", "gopher://x", 3, "/endpoint", "begins with http"),
        ("https://stock.example.com/installed", "http://x.example.com", 4, "/return_urls/0", "not a return address"),
        ("products:read", "products:raed", 7, "/scopes/products:raed", "is not a scope"),
        ("To show your products.", "", 7, "/scopes/products:read", "must not be empty"),
        ("To show your products.", "a\\nb", 7, "/scopes/products:read", "must be one line"),
        ("product.*", "prodct.*", 12, "/subscriptions/0/events/0", "not a known event"),
        ('"price"', '"prise"', 14, "/subscriptions/0/changed/0", ""),
        ('"paid"', '"prices"', 17, "/subscriptions/1/name", "occurs more than once"),
        ('currency = "EUR"', 'curency = "EUR"', 20, "/subscriptions/1/filter/curency", ""),
        ("order.payment_recorded", "customer.created", 18, "/subscriptions/1/events/0", "needs customers:read"),
        ('x = "11q', 'd = "11q', 23, "/keys/0", "private key"),
        ('"total[gte]" = 10', '"total[gte]" = nan', 21, "/subscriptions/1/filter/total[gte]", "a number"),
        ('"total[gte]" = 10', '"total[gte]" = -inf', 21, "/subscriptions/1/filter/total[gte]", "a number"),
        ("[[keys]]", "[[metadata]]\nmin = nan\n[[keys]]", 24, "/metadata/0/min", "a number"),
        ('kid = "key-1"', "kid = 7", 27, "/keys/0/kid", "must be a string"),
        ("name = ", "name == ", 1, "", "is not valid TOML"),
        ('"https://stock.example.com/hooks"', '"""https', 28, "", "is not valid TOML"),
    ],
)
def test_each_fault_names_its_line_and_key(old: str, new: str, line: int, pointer: str, says: str) -> None:
    found = faults(FILE.replace(old, new, 1))
    at = [each for each in found if each[:2] == (line, pointer)]
    assert at, found
    assert says in at[0][2], at


def test_all_faults_are_reported_at_once() -> None:
    wrong = (
        FILE.replace("product.*", "nothing")
        .replace("order.payment_recorded", "nothing")
        .replace("https://stock.example.com\n", "x\n")
    )
    assert [pointer for _, pointer, _ in faults(wrong)] == ["/subscriptions/0/events/0", "/subscriptions/1/events/0"]
    assert [pointer for _, pointer, _ in faults("")] == ["/name", "/scopes"]
    assert faults('name = "A"\n[scopes]\n') == [
        (2, "/scopes", "must name at least one scope; an app without scopes cannot be installed")
    ]


def test_addresses_are_checked_only_where_the_rule_of_the_service_is_known() -> None:
    local = FILE.replace("https://stock.example.com/hooks", "http://localhost:3000/stoa")
    assert read_file(local)
    assert read_file(local, webhook_allow="localhost")
    assert [(line, pointer) for line, pointer, _ in faults(local, "")] == [(13, "/subscriptions/0/url")]


@pytest.mark.parametrize(
    "text", ["[" * 5000, "x = " + "[" * 5000, "x = " + "9" * 5000, "a." * 900 + "b = 1", "x" * (MOST_BYTES + 1), "\x00"]
)
def test_a_hostile_file_is_refused(text: str) -> None:
    assert faults(text)


names = st.text(st.characters(blacklist_categories=("C",)), min_size=1, max_size=80)


@given(name=names, reason=names, value=names, number=st.integers(11, 100))
def test_what_is_written_is_read_unchanged(name: str, reason: str, value: str, number: int) -> None:
    body = AppSubscription(name, ["product.*"], filter={"brand": value}, max_in_flight=number, skip_own=True)
    file = AppFile(name, {"products:read": reason}, homepage=value, subscriptions=[body])
    read: dict[str, Any] = tomllib.loads(write_file(file))
    assert (read["name"], read["homepage"], read["scopes"]) == (name, value, {"products:read": reason})
    assert read["subscriptions"] == [
        {"name": name, "events": ["product.*"], "max_in_flight": number, "skip_own": True, "filter": {"brand": value}}
    ]


def test_lines_are_found_beside_texts_of_several_lines() -> None:
    text = "a = '''\n[b]\nc = 1\n'''\nd.\"e/f\" = 1 # g = 2\n[[h]]\n[h.i]\nj = 1\n[[h]]\n[h.'i']\nj = 2\n"
    lines = lines_of(text)
    assert lines == {
        "/a": 1, "/d": 5, "/d/e~1f": 5, "/h": 6, "/h/0": 6, "/h/0/i": 7, "/h/0/i/j": 8, "/h/1": 9, "/h/1/i": 10, "/h/1/i/j": 11,
    }  # fmt: skip
    assert line_of(lines, "/h/1/i/k/0") == 10
    assert line_of(lines, "/nothing") is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a" + ".a" * 16_000 + " = 1", 1),
        ("# a comment\n[" + "a . " * 20 + "a]", 2),
        ('\n[["a"' + ".'b\"'" * 20 + "]]", 2),
        ("a = [{" + "a." * 20 + "a = 1}]", 1),
        ('a = ["""b"""", {' + "a." * 20 + 'a = 1, b = ""}]', 1),
        ("a = '''\n# '''\n" + "a." * 20 + "a = 1", 3),
    ],
)
def test_a_key_with_very_many_parts_is_refused_before_it_is_parsed(text: str, line: int) -> None:
    assert faults(text) == [(line, "", "has a key with more than 20 parts")]


def test_only_keys_are_limited_to_a_number_of_parts() -> None:
    dots = "a." * 30 + "a"
    texts = f'# {dots}\na = "{dots}"\nb = \'{dots}\'\nc = ["""\n{dots} \\"""", \'\'\'\n{dots}\'\'\', 1.5]\n'
    assert line_of_long_key(texts + ".".join("a" * 20) + " = 1") is None


def test_a_long_line_without_a_value_is_read_in_one_pass() -> None:
    assert lines_of("a" * 30_000) == {}
    assert lines_of('["' + " \t" * 15_000 + "]") != {}
    assert lines_of("a." * 15_000 + "a = 1")["/a"] == 1


def test_a_file_with_many_misspelled_names_gets_suggestions_only_for_the_first_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[str] = []
    similar = difflib.get_close_matches

    def counted(name: str, known: list[str], n: int) -> list[str]:
        compared.append(name)
        return similar(name, known, n)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    with pytest.raises(ValidationFailed) as refused:
        read_file(FILE.partition("[[subscriptions]]")[0] + "\n".join(_misspelled()))
    assert refused.value.detail == "400 faults found."
    suggested = ["did_you_mean" in (each.meta or {}) for each in refused.value.faults]
    assert suggested == [True] * MOST_SUGGESTED + [False] * (100 - MOST_SUGGESTED)
    assert len(compared) == MOST_SUGGESTED


def _misspelled() -> Iterator[str]:
    """20 subscriptions, each with a filter of 20 misspelled fields."""
    for subscription in range(20):
        yield f'[[subscriptions]]\nname = "s{subscription}"\nevents = ["order.*"]\n[subscriptions.filter]'
        yield from (f'payment_statu{number} = "paid"' for number in range(20))
