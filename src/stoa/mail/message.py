"""Composes the message of a mail: headers, plain text and a simple HTML part, from one template."""

import base64
import hmac
import secrets
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from functools import cache
from hashlib import sha256

from jinja2 import Template

from stoa.html import environment
from stoa.mail.contract import LeasedMail
from stoa.mail.outbox import one_line
from stoa.mail_settings import Sender
from stoa.secret_keys import Keys, key_fingerprint

_KEY_DIGITS = 8
_POLICY = SMTP.clone(cte_type="7bit")  # so that every server takes it
REASON = "You receive this email because you have an account at {}."
REASON_WITHOUT_ACCOUNT = "You receive this email because somebody at {} entered your address."


def new_nonce(keys: Keys) -> str:
    """A nonce that names the key of its token, because the process that sends the mail may prefer another one."""
    return f"{key_fingerprint(keys.current)[:_KEY_DIGITS]}.{secrets.token_urlsafe(32)}"


def one_time_token(keys: Keys, nonce: str) -> str:
    """The token of a link, derived from the service's key: neither the database nor the outbox page reveals it."""
    key = keys.find(nonce.partition(".")[0] if "." in nonce else "") or keys.current
    return base64.urlsafe_b64encode(hmac.digest(key, b"stoa mail link\0" + nonce.encode(), sha256)).decode().rstrip("=")


def link_of(mail: LeasedMail, base_url: str, keys: Keys) -> str:
    if not mail.path:
        return ""
    return f"{base_url}{mail.path}{one_time_token(keys, mail.nonce) if mail.nonce else ''}"


def compose(mail: LeasedMail, sender: Sender, base_url: str, keys: Keys) -> EmailMessage:
    """Compose the message. Each attempt has the same Message-ID and Date, so that a repeat can be recognized."""
    link = link_of(mail, base_url, keys)
    message = EmailMessage(policy=_POLICY)
    message["From"] = Address(sender.name, addr_spec=sender.address)
    message["To"] = Address(addr_spec=mail.recipient)
    message["Subject"] = one_line(mail.subject)
    message["Date"] = mail.created_at
    message["Message-ID"] = f"<{mail.message_id}@{sender.domain}>"
    message["Auto-Submitted"] = "auto-generated"
    reason = (REASON if mail.account_id is not None else REASON_WITHOUT_ACCOUNT).format(base_url)
    parts = [mail.body, f"{mail.action}: {link}" if link else "", f"--\n{reason}"]
    message.set_content("\n\n".join(part for part in parts if part) + "\n")
    paragraphs = [part for part in mail.body.split("\n\n") if part.strip()]
    html = _template().render(subject=mail.subject, paragraphs=paragraphs, action=mail.action, link=link, reason=reason)
    message.add_alternative(html, subtype="html")
    return message


@cache
def _template() -> Template:
    return environment("stoa.mail").get_template("mail.html")
