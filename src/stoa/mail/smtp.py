"""A connection to the mail server. Its calls block; the courier runs them in a thread."""

import smtplib
import socket
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


class _Session(smtplib.SMTP):
    """A session over a socket that is connected."""

    def __init__(self, connected: socket.socket, host: str, domain: str) -> None:
        self._connected = connected
        super().__init__(host, local_hostname=domain)

    def connect(self, host: str = "", port: int = 0, source_address: object = None) -> tuple[int, bytes]:
        self.sock = self._connected
        return self.getreply()


class Connection:
    """A session with the server: opened once for a batch of mails."""

    def __init__(self, server: MailServer, domain: str, timeout: float) -> None:
        self._server = server
        self._domain = domain  # named in EHLO, because looking up our own name may hang
        self._timeout = timeout
        self._smtp: smtplib.SMTP | None = None
        self._handle: socket.socket | None = None  # of the socket in use, which TLS hides
        self._aborted = False

    def open(self) -> None:
        """Connect, encrypt and sign in; certificates are verified."""
        server, tls = self._server, ssl.create_default_context()
        connected = self._connect()
        if server.tls == "implicit":
            connected = tls.wrap_socket(connected, server_hostname=server.host)
        self._smtp = smtp = _Session(connected, server.host, self._domain)
        if server.tls == "starttls":
            smtp.starttls(context=tls)
        if server.user:
            smtp.login(server.user, server.password)

    def _connect(self) -> socket.socket:
        """Try each address of the server."""
        failed: OSError = ConnectionAbortedError("the process stops")
        for family, kind, protocol, _, address in socket.getaddrinfo(
            self._server.host, self._server.port, type=socket.SOCK_STREAM
        ):
            connecting = socket.socket(family, kind, protocol)
            connecting.settimeout(self._timeout)
            self._release()
            self._handle = connecting.dup()
            try:
                if not self._aborted:
                    connecting.connect(address)
                    return connecting
            except OSError as error:
                failed = error
            connecting.close()
        raise failed

    def send(self, message: EmailMessage, sender: str, recipient: str) -> None:
        if self._smtp is None:
            raise smtplib.SMTPServerDisconnected("the connection is closed")
        self._smtp.send_message(message, sender, [recipient])

    def close(self) -> None:
        smtp, self._smtp = self._smtp, None
        if smtp is not None:
            with suppress(OSError, smtplib.SMTPException):
                smtp.quit()
            smtp.close()
        self._release()

    def abort(self) -> None:
        """End the connection; a call that waits in another thread fails at once. Closing a socket would not wake it."""
        self._aborted = True
        handle = self._handle  # the other thread may take it away
        if handle is not None:
            with suppress(OSError):
                handle.shutdown(socket.SHUT_RDWR)

    def _release(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None


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
