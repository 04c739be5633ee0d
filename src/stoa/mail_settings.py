"""Reads the settings of email: the URL of the mail server, and the sender."""

import re
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

Tls = Literal["implicit", "starttls", "none"]
_PORTS: dict[Tls, int] = {"implicit": 465, "starttls": 587, "none": 25}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ADDRESS = r"[^\s@<>\"(),:;\[\]\\]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?"
_SENDER = re.compile(rf"(?:(?P<name>[^<>\"@]*)<(?P<named>{_ADDRESS})>|(?P<plain>{_ADDRESS}))")


class MailServer(msgspec.Struct, frozen=True):
    """Where email is sent to. The password is not part of its representation."""

    host: str
    port: int
    user: str
    password: str
    tls: Tls

    def __repr__(self) -> str:
        return f"MailServer({self.host}:{self.port})"


class Sender(msgspec.Struct, frozen=True):
    """The From of every email."""

    name: str
    address: str

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2]


def read_mail_server(url: str) -> MailServer:
    """Read smtp://user:password@host:587?starttls or smtps://...; a ValueError says what is wrong, without the password."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("must be a URL such as smtp://user:password@mail.example.com:587?starttls") from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme not in ("smtp", "smtps") or not host or not url.isprintable() or " " in url:
        raise ValueError("must begin with smtp:// or smtps:// and name a host")
    if parts.path not in ("", "/") or parts.fragment or options not in ({}, {"starttls": ""}):
        raise ValueError("may have only ?starttls after the host and the port")
    if port == 0:
        raise ValueError("must have a port from 1 to 65535")
    tls: Tls = "implicit" if parts.scheme == "smtps" else "starttls" if options else "none"
    if tls == "implicit" and options:
        raise ValueError("must not have ?starttls with smtps://, which is encrypted from the start")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if bool(user) != bool(password):
        raise ValueError("must have a user and a password, or neither")
    if not (user + password).isascii() or not (user + password).isprintable():
        raise ValueError("may have only ASCII characters in the user and the password")
    if user and tls == "none" and host not in _LOOPBACK:
        raise ValueError("would send the password without encryption: add ?starttls, or use smtps://")
    return MailServer(host, port or _PORTS[tls], user, password, tls)


def read_sender(text: str) -> Sender:
    """Read `noreply@example.com` or `Stoa <noreply@example.com>`."""
    found = _SENDER.fullmatch(text.strip())
    if found is None or not text.isprintable():
        raise ValueError("must be an email address, such as noreply@example.com or Stoa <noreply@example.com>")
    return Sender((found["name"] or "").strip(), found["named"] or found["plain"])
