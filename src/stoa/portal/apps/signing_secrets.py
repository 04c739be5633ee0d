"""The form that replaces a signing secret: only the one that its page showed, so submitting it twice replaces it once."""

import hashlib
from typing import Annotated

import msgspec

from stoa.portal.kit.forms import FormError, text


class SigningRotationForm(msgspec.Struct):
    """Without `seen`, the form is from a page of the previous release."""

    grace_hours: Annotated[int, msgspec.Meta(ge=0, le=168, extra={"message": "Select one of the options."})]
    seen: Annotated[str, text("Reload the page.", max_length=64)] = ""

    def check(self, encrypted: bytes) -> None:
        """Refuse to replace another secret than the page showed: the one before it would stop signing."""
        if self.seen and self.seen != secret_mark(encrypted):
            message = "This secret was already replaced. Check the new one before you create another."
            raise FormError({"": message}, status=409)


def secret_mark(encrypted: bytes) -> str:
    """Identifies a secret by its encrypted form, and says nothing about it."""
    return hashlib.sha256(encrypted).hexdigest()[:16]
