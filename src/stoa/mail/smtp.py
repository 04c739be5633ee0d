"""A connection to the mail server. Its calls block; the courier runs them in a thread."""

import smtplib
import ssl
from contextlib import suppress
from email.message import EmailMessage

import msgspec

from stoa.mail_settings import MailServer

_MAX_ERROR = 300
_PERMANENT = 500  # codes from here on say that trying again is useless


class Refusal(msgspec.Struct, frozen=True):
    """Why a mail was not sent; `permanent` if a retry is useless, `lost` if the connection is of no further use."""

    message: str
    permanent: bool
    lost: bool


class Connection:
    """A session with the server: opened once for a batch of mails."""

    def __init__(self, server: MailServer, domain: str, timeout: float) -> None:
        self._server = server
        self._domain = domain  # named in EHLO, because looking up our own name may hang
        self._timeout = timeout
        self._smtp: smtplib.SMTP | None = None

    def open(self) -> None:
        """Connect, encrypt and sign in; certificates are verified."""
        server, tls = self._server, ssl.create_default_context()
        address = (server.host, server.port, self._domain)
        if server.tls == "implicit":
            smtp = smtplib.SMTP_SSL(*address, timeout=self._timeout, context=tls)
        else:
            smtp = smtplib.SMTP(*address, timeout=self._timeout)
        self._smtp = smtp
        if server.tls == "starttls":
            smtp.starttls(context=tls)
        if server.user:
            smtp.login(server.user, server.password)

    def send(self, message: EmailMessage, sender: str, recipient: str) -> None:
        if self._smtp is None:
            raise smtplib.SMTPServerDisconnected("the connection is closed")
        self._smtp.send_message(message, sender, [recipient])

    def close(self) -> None:
        if self._smtp is not None:
            with suppress(OSError, smtplib.SMTPException):
                self._smtp.quit()
            self.abort()

    def abort(self) -> None:
        """Close the socket; a call that waits in another thread fails at once."""
        smtp, self._smtp = self._smtp, None
        if smtp is not None:
            with suppress(OSError):
                smtp.close()


def refusal_of(error: Exception) -> Refusal:
    """Classify the failure of a send. A refused password or sender is for the operator to mend, so it is retried."""
    match error:
        case smtplib.SMTPRecipientsRefused():
            code, text = next(iter(error.recipients.values()), (0, b""))
            return Refusal(
                _told(f"The server refuses the recipient: {code} {_text(text)}"), code >= _PERMANENT, lost=False
            )
        case smtplib.SMTPDataError():
            told = f"The server refuses the message: {error.smtp_code} {_text(error.smtp_error)}"
            return Refusal(_told(told), error.smtp_code >= _PERMANENT, lost=False)
        case smtplib.SMTPAuthenticationError():
            return Refusal(
                _told(f"The server refuses the user or the password: {error.smtp_code}"), permanent=False, lost=True
            )
        case smtplib.SMTPResponseException():
            told = f"The server answers {error.smtp_code} {_text(error.smtp_error)}"
            return Refusal(_told(told), permanent=False, lost=True)
        case smtplib.SMTPNotSupportedError() if "SMTPUTF8" in str(error):
            return Refusal("The server does not accept this address, which is not ASCII.", permanent=True, lost=False)
        case ssl.SSLError():
            return Refusal("The certificate of the server is not valid.", permanent=False, lost=True)
        case TimeoutError():
            return Refusal("The server does not respond in time.", permanent=False, lost=True)
        case smtplib.SMTPException() | OSError():
            reason = getattr(error, "strerror", None) or type(error).__name__
            return Refusal(_told(f"The connection failed: {reason}"), permanent=False, lost=True)
        case _:  # the message cannot be composed: a bad address or header
            return Refusal(_told(f"The message is not valid: {type(error).__name__}"), permanent=True, lost=False)


def _text(raw: bytes | str) -> str:
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw


def _told(text: str) -> str:
    """What a server said, in one printable line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:_MAX_ERROR]
