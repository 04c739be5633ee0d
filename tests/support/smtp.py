"""A mail server on loopback that speaks SMTP: with or without TLS and passwords, and with faults on demand."""

import asyncio
import base64
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

USER, PASSWORD = "stoa", "pass:w@rd/e"


class Received(msgspec.Struct):
    """A mail that the server accepted."""

    sender: str
    recipient: str
    message: EmailMessage
    encrypted: bool

    @property
    def text(self) -> str:
        part = self.message.get_body(("plain",))
        assert part is not None
        return part.get_content()

    @property
    def html(self) -> str:
        part = self.message.get_body(("html",))
        assert part is not None
        return part.get_content()

    @property
    def link(self) -> str:
        return next(word for word in self.text.split() if word.startswith("http") and "/portal/" in word)


class MailboxServer:
    """Accepts mails; `answers` gives the answer to a step for a recipient, `accepted` is called before a mail is confirmed."""

    def __init__(self, certificate: Path | None = None, *, implicit: bool = False) -> None:
        self.received: list[Received] = []
        self.answers: dict[str, str] = {}  # by recipient, in place of 250 for RCPT TO
        self.accepted: Callable[[Received], None] = lambda _: None
        self.port = 0
        self._implicit = implicit
        self._tls: ssl.SSLContext | None = None
        if certificate is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(certificate)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["MailboxServer"]:
        context = self._tls if self._implicit else None
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    def url(self) -> str:
        if self._tls is None:
            return f"smtp://127.0.0.1:{self.port}"
        login = "stoa:pass%3Aw%40rd%2Fe@localhost"
        return f"smtps://{login}:{self.port}" if self._implicit else f"smtp://{login}:{self.port}?starttls"

    def to(self, recipient: str) -> list[Received]:
        return [each for each in self.received if each.recipient == recipient]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            await self._converse(reader, writer)
        writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        encrypted, signed_in, sender, recipient = self._implicit, self._tls is None, "", ""

        async def say(text: str) -> None:
            writer.write(f"{text}\r\n".encode())
            await writer.drain()

        await say("220 mailbox")
        while line := await reader.readline():
            word, _, rest = line.decode().strip().partition(" ")
            match word.upper():
                case "EHLO":
                    offers = ["mailbox", *(["STARTTLS"] if self._tls and not encrypted else [])]
                    offers += ["AUTH PLAIN"] if self._tls and encrypted else []
                    for offer in offers[:-1]:
                        await say(f"250-{offer}")
                    await say(f"250 {offers[-1]}")
                case "STARTTLS" if self._tls and not encrypted:
                    await say("220 go ahead")
                    await writer.start_tls(self._tls)
                    encrypted = True
                case "AUTH" if encrypted:
                    _, user, password = base64.b64decode(rest.split()[1]).decode().split("\0")
                    signed_in = (user, password) == (USER, PASSWORD)
                    await say("235 welcome" if signed_in else "535 no")
                case "MAIL" if signed_in:
                    sender = rest.partition("<")[2].partition(">")[0]
                    await say("250 ok")
                case "RCPT" if sender:
                    recipient = rest.partition("<")[2].partition(">")[0]
                    await say(self.answers.get(recipient, "250 ok"))
                case "DATA" if recipient:
                    await say("354 go on")
                    raw = (await reader.readuntil(b"\r\n.\r\n"))[:-3].replace(b"\r\n..", b"\r\n.")
                    message = message_from_bytes(raw, _class=EmailMessage, policy=default)  # pyright: ignore[reportArgumentType,reportCallIssue]
                    mail = Received(sender, recipient, message, encrypted)
                    self.received.append(mail)
                    self.accepted(mail)
                    await say("250 ok")
                case "RSET":
                    await say("250 ok")
                case "QUIT":
                    await say("221 bye")
                    return
                case _:
                    await say("503 not now")


def create_certificate(file: Path) -> Path:
    """A certificate for localhost with its key, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return file
