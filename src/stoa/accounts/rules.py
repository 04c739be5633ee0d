"""What can be decided about people without a database: addresses, passwords, codes."""

import hmac
import re
import secrets

import pyotp

from stoa.accounts.contract import InvalidEmail, InvalidPerson, WeakPassword

SHORTEST_PASSWORD, LONGEST_PASSWORD = 12, 256
RECOVERY_CODES = 10
_EMAIL = re.compile(r"[^\s@<>\"(),:;\[\]\\]{1,64}@[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is mistaken for another
_STEP_S = 30
_CODE = re.compile(r"[0-9]{6}", re.ASCII)
_REPEATED = re.compile(r"(.{1,8})\1+")
_ROWS = ("01234567890123456789", "abcdefghijklmnopqrstuvwxyz", "qwertyuiopasdfghjklzxcvbnm", "1q2w3e4r5t6y7u8i9o0p")
_WORN = (
    "password",
    "passwort",
    "letmein",
    "welcome",
    "iloveyou",
    "changeme",
    "administrator",
    "admin",
    "secret",
    "stoa",
)
_SHORTEST_RUN, _LEAST_OF_ONES_OWN = 4, 5


def normal_email(text: str) -> str:
    """An address in the one spelling by which it is stored and looked up."""
    email = text.strip().lower()
    if len(email) > 254 or not email.isprintable() or _EMAIL.fullmatch(email) is None or ".." in email:
        raise InvalidEmail
    return email


def check_person(name: str) -> str:
    if not 1 <= len(name.strip()) <= 100 or not name.isprintable():
        raise InvalidPerson
    return name.strip()


def check_password(password: str, email: str) -> None:
    """Long enough, and not the one thing that everybody knows; no rules about digits or signs."""
    if len(password) < SHORTEST_PASSWORD:
        raise WeakPassword(f"a password has at least {SHORTEST_PASSWORD} characters; a short sentence is a good one")
    if len(password) > LONGEST_PASSWORD:
        raise WeakPassword(f"a password has at most {LONGEST_PASSWORD} characters")
    if password.strip().lower() in (email, email.partition("@")[0]) or len(set(password)) == 1:
        raise WeakPassword("a password must not be your e-mail address or one letter again and again")
    if _is_worn(password.lower()):
        raise WeakPassword("this password is among the first that anybody would try; a short sentence is a good one")


def _is_worn(password: str) -> bool:
    """Whether little is left of it without repetitions, rows of keys and the words that everybody takes."""
    repeated = _REPEATED.fullmatch(password)
    rest = repeated[1] if repeated else password
    for word in _WORN:
        rest = rest.replace(word, "")
    for row in _ROWS:
        for length in range(len(row), _SHORTEST_RUN - 1, -1):
            for at in range(len(row) - length + 1):
                run = row[at : at + length]
                rest = rest.replace(run, "").replace(run[::-1], "")
    return len(rest) < _LEAST_OF_ONES_OWN


def matching_step(secret: str, code: str, now: float) -> int | None:
    """The step whose code this is: the current one, or the one before or after, for clocks that differ."""
    if not _CODE.fullmatch(code):
        return None
    current = int(now // _STEP_S)
    generator = pyotp.TOTP(secret)
    found: int | None = None
    for step in (current - 1, current, current + 1):
        if hmac.compare_digest(generator.at(step * _STEP_S), code):
            found = step
    return found


def new_recovery_code() -> str:
    """A code of 49 bits in two halves, fit to be written down."""
    letters = "".join(secrets.choice(_LETTERS) for _ in range(10))
    return f"{letters[:5]}-{letters[5:]}"


def plain_code(text: str) -> str:
    """A code as it was meant, however it was typed."""
    return re.sub(r"[\s-]", "", text).lower()
