"""The secret keys of the service. The first one writes and all of them read, so that a key is replaced while the service runs."""

import hashlib
import hmac
import itertools
import re
from collections.abc import Sequence

import msgspec

KEY_BYTES = 32
_FEWEST_DIFFERENT_BYTES = 16  # 32 random bytes have 30 different ones, and fewer than 16 less than once in 10^15 keys
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+")
_RETIRED = ";"
HOW_TO_MAKE_ONE = "make one with `openssl rand -hex 32`"


class Keys(msgspec.Struct, frozen=True):
    """The keys by what they may do: `current` writes, `others` of the setting read, and `retired` ones, which the database
    keeps encrypted, only recognize what was hashed or encrypted before their rotation."""

    current: bytes
    others: tuple[bytes, ...] = ()
    retired: tuple[bytes, ...] = ()

    @property
    def configured(self) -> tuple[bytes, ...]:
        return (self.current, *self.others)

    @property
    def all(self) -> tuple[bytes, ...]:
        return (self.current, *self.others, *self.retired)

    def find(self, fingerprint: str) -> bytes | None:
        """The key with this fingerprint, or with this beginning of one."""
        return next((key for key in self.all if fingerprint and key_fingerprint(key).startswith(fingerprint)), None)


def key_fingerprint(key: bytes) -> str:
    """A fingerprint by which two keys are compared without revealing them."""
    return hmac.new(key, b"stoa key fingerprint", hashlib.sha256).hexdigest()[:32]


def read_keys(text: str) -> Keys:
    """Read one or several keys; a ValueError says what is wrong, without the key."""
    configured, checked, retired = text.partition(_RETIRED)
    current, *others = [_read(word) for word in re.split(r"[\s,]+", configured.strip())]
    if not checked and _is_weak(current):
        raise ValueError(
            f"is too easy to guess: {HOW_TO_MAKE_ONE}. If a database already has this key, set the new one and this one, "
            "separated by a comma"
        )
    unique = dict.fromkeys(key for key in others if key != current)
    return Keys(current, tuple(unique), tuple(_read(word) for word in retired.split(",") if word))


def text_of(keys: Keys) -> str:
    """The text from which the processes of a service read the same keys, in the order that was decided for all of them."""
    return f"{_joined(keys.configured)}{_RETIRED}{_joined(keys.retired)}"


def _joined(keys: Sequence[bytes]) -> str:
    return ",".join(key.hex() for key in keys)


def _read(word: str) -> bytes:
    if len(word) < 2 * KEY_BYTES or not _HEX.fullmatch(word):
        raise ValueError(
            f"must be an even number of hexadecimal digits, {2 * KEY_BYTES} or more, or several such keys, separated by "
            f"commas; {HOW_TO_MAKE_ONE}"
        )
    return bytes.fromhex(word)


def _is_weak(key: bytes) -> bool:
    """Whether a person wrote the key, such as 64 zeros, a repeated word or counting digits."""
    steps = {(after - before) % 256 for before, after in itertools.pairwise(key)}
    return len(set(key)) < _FEWEST_DIFFERENT_BYTES or len(steps) == 1
