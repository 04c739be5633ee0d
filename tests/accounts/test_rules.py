"""Rules for passwords, email addresses and TOTP codes."""

import pyotp
import pytest

from stoa.accounts.refusals import InvalidEmail, InvalidHomepage, InvalidReason, WeakPassword
from stoa.accounts.rules import check_listing, check_password, matching_step, normalize_email


@pytest.mark.parametrize("password", ["short", "x" * 257, "maria@example.com", "MARIA@example.com", "a" * 20])
def test_a_short_or_trivial_password_is_refused(password: str) -> None:
    with pytest.raises(WeakPassword):
        check_password(password, "maria@example.com")


@pytest.mark.parametrize(
    "password", ["123456789012", "passwordpassword", "Password1234", "qwertyuiop12", "abcdefghijkl", "abcabcabcabcabc"]
)
def test_a_common_password_is_refused(password: str) -> None:
    with pytest.raises(WeakPassword):
        check_password(password, "maria@example.com")


@pytest.mark.parametrize("password", ["correct horse battery", "🏛" * 6 + "stoastoa", "            a"])
def test_any_other_long_password_is_accepted(password: str) -> None:
    check_password(password, "maria@example.com")


@pytest.mark.parametrize(
    "email",
    ["", "maria", "maria@", "@example.com", "a b@example.com", "a@b@c", "a@ex..ample", "a\x00b@example.com", "x" * 300],
)
def test_an_invalid_email_address_is_refused(email: str) -> None:
    with pytest.raises(InvalidEmail):
        normalize_email(email)


@pytest.mark.parametrize(("seconds", "found"), [(-30, True), (0, True), (30, True), (-95, False), (95, False)])
def test_clocks_may_differ_by_30_seconds(seconds: int, found: bool) -> None:
    secret, now = "JBSWY3DPEHPK3PXP", 1_700_000_025
    code = pyotp.TOTP(secret).at(now + seconds)
    assert (matching_step(secret, code, now) is not None) == found


@pytest.mark.parametrize(
    "homepage", ["https://example.com/\nx", "https://exam\tple.com", "javascript:alert(1)", "https://"]
)
def test_a_homepage_is_a_web_url_without_control_characters(homepage: str) -> None:
    check_listing("https://example.com/a?b=c", {})
    check_listing("", {"orders:read": "To see them."})
    with pytest.raises(InvalidHomepage):
        check_listing(homepage, {})


def test_a_reason_has_no_control_characters() -> None:
    with pytest.raises(InvalidReason):
        check_listing("", {"orders:read": "To see\x1b[2Jthem."})
