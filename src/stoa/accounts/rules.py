"""Rules for email addresses, names, passwords and codes that need no database."""

import hmac
import re
import secrets
from collections.abc import Mapping
from urllib.parse import urlsplit

import pyotp

from stoa.access.contract import MisleadingName
from stoa.accounts.refusals import InvalidEmail, InvalidHomepage, InvalidPersonName, InvalidReason, WeakPassword
from stoa.names import fault_in

MIN_PASSWORD_LENGTH, MAX_PASSWORD_LENGTH = 12, 256
RECOVERY_CODES = 10
_EMAIL = re.compile(r"[^\s@<>\"(),:;\[\]\\]{1,64}@[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # without look-alikes such as 0 and o
_TOTP_STEP_S = 30
_TOTP_CODE = re.compile(r"[0-9]{6}", re.ASCII)
_REPEATED = re.compile(r"(.{1,8})\1+")
_KEY_SEQUENCES = (
    "01234567890123456789",
    "abcdefghijklmnopqrstuvwxyz",
    "qwertyuiopasdfghjklzxcvbnm",
    "1q2w3e4r5t6y7u8i9o0p",
)
_COMMON_WORDS = (
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
_MIN_SEQUENCE, _MIN_UNGUESSABLE = 4, 5


def normalize_email(text: str) -> str:
    """Return the address in the form in which it is stored and looked up."""
    email = text.strip().lower()
    if len(email) > 254 or not email.isprintable() or _EMAIL.fullmatch(email) is None or ".." in email:
        raise InvalidEmail
    return email


def check_person_name(name: str) -> str:
    if not 1 <= len(name.strip()) <= 100 or not name.isprintable():
        raise InvalidPersonName
    if fault := fault_in(name.strip()):
        raise MisleadingName(fault)
    return name.strip()


def is_web_url(text: str) -> bool:
    """Whether the text is an http or https URL without a user name, spaces or control characters."""
    if not text.isprintable() or " " in text:  # urlsplit ignores line breaks and tabs
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in ("https", "http") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False


def check_listing(homepage: str, reasons: Mapping[str, str]) -> None:
    """Refuse what an app must not show to merchants."""
    if homepage and not is_web_url(homepage):
        raise InvalidHomepage
    if not all(reason.isprintable() for reason in reasons.values()):
        raise InvalidReason


def check_password(password: str, email: str) -> None:
    """Refuse passwords that are short or easy to guess; digits and symbols are not required."""
    if len(password) < MIN_PASSWORD_LENGTH:
        raise WeakPassword(f"a password needs at least {MIN_PASSWORD_LENGTH} characters; a short sentence works well")
    if len(password) > MAX_PASSWORD_LENGTH:
        raise WeakPassword(f"a password can have at most {MAX_PASSWORD_LENGTH} characters")
    if password.strip().lower() in (email, email.partition("@")[0]) or len(set(password)) == 1:
        raise WeakPassword("a password must not be your email address or a single repeated character")
    if _is_guessable(password.lower()):
        raise WeakPassword("this password is too easy to guess; a short sentence works well")


def _is_guessable(password: str) -> bool:
    """Whether fewer than five characters remain without repetitions, keyboard sequences and common words."""
    repeated = _REPEATED.fullmatch(password)
    rest = repeated[1] if repeated else password
    for word in _COMMON_WORDS:
        rest = rest.replace(word, "")
    for keys in _KEY_SEQUENCES:
        for length in range(len(keys), _MIN_SEQUENCE - 1, -1):
            for start in range(len(keys) - length + 1):
                sequence = keys[start : start + length]
                rest = rest.replace(sequence, "").replace(sequence[::-1], "")
    return len(rest) < _MIN_UNGUESSABLE


def matching_step(secret: str, code: str, now: float) -> int | None:
    """Return the TOTP step of this code: the current one or a neighbor, to allow for clock drift."""
    if not _TOTP_CODE.fullmatch(code):
        return None
    current = int(now // _TOTP_STEP_S)
    generator = pyotp.TOTP(secret)
    matched: int | None = None
    for step in (current - 1, current, current + 1):
        if hmac.compare_digest(generator.at(step * _TOTP_STEP_S), code):
            matched = step
    return matched


def new_recovery_code() -> str:
    """Return a random code of 49 bits in two groups, easy to write down."""
    characters = "".join(secrets.choice(_ALPHABET) for _ in range(10))
    return f"{characters[:5]}-{characters[5:]}"


def normalize_code(text: str) -> str:
    """Return the code without spaces and hyphens, in lower case."""
    return re.sub(r"[\s-]", "", text).lower()


def browser_of(agent: str) -> str:
    """Return the browser and system of a user agent. Browsers also send each other's names, so the order matters."""
    names = ("Edg", "OPR", "Firefox", "Chrome", "Safari", "curl", "python-httpx")
    systems = ("Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux")
    name = next((each for each in names if each in agent), "")
    system = next((each for each in systems if each in agent), "")
    label = {"Edg": "Edge", "OPR": "Opera", "python-httpx": "httpx"}.get(name, name)
    return " on ".join(part for part in (label, system) if part) or "Unknown browser"
