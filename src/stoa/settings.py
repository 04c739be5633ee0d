"""Every setting of the service: one frozen value, read from the environment once, each with a default."""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta

PREFIX = "STOA_"
KEY_BYTES = 32
# What `make demo` prints for a shell to source: these are for callers, not for the service.
_FOR_CALLERS = frozenset(
    f"{PREFIX}{name}"
    for name in ("BASE_URL", "AUTH_URL", "CLIENT_ID", "CLIENT_SECRET", "PORTAL_URL", "PORTAL_EMAIL", "PORTAL_PASSWORD")
)

Port = Annotated[int, Meta(ge=1, le=65535)]
Positive = Annotated[int, Meta(ge=1)]


class WrongSetting(Exception):
    """A setting cannot be used; the message names it and says what would be right."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The service's settings. Each is the environment variable STOA_ + its name in capitals."""

    host: Annotated[str, Meta(description="Address to listen on; 0.0.0.0 for every interface.")] = "127.0.0.1"
    port: Annotated[Port, Meta(description="Port to listen on.")] = 8000
    workers: Annotated[Positive, Meta(description="Processes that serve requests.")] = 1
    data_dir: Annotated[
        Path, Meta(description="Folder for the embedded database, keys and the demo's credentials.")
    ] = Path(".stoa")
    database_url: Annotated[
        str,
        Meta(
            description="PostgreSQL 15 or newer, as a postgresql:// URL; empty runs an embedded one in the data folder."
        ),
    ] = ""
    database_pool: Annotated[Positive, Meta(description="Database connections of each worker.")] = 10
    public_url: Annotated[
        str,
        Meta(
            description="The service's address as callers see it, such as https://api.example.com; empty takes it from each request."
        ),
    ] = ""
    proxies: Annotated[
        int,
        Meta(
            ge=0,
            description="How many proxies of yours stand before the service; callers' addresses and scheme are then taken from X-Forwarded-For and X-Forwarded-Proto.",
        ),
    ] = 0
    store_domain: Annotated[
        str, Meta(description="Stores answer at {handle}.{this domain} as well as at /stores/{handle}.")
    ] = "localhost"
    secret_key: Annotated[
        str,
        Meta(
            description="Key that credentials are hashed with, 32 bytes or more as hexadecimal digits; empty keeps one in the data folder."
        ),
    ] = ""
    rate_burst: Annotated[Positive, Meta(description="Requests an app may make to a store at once.")] = 600
    rate_refill: Annotated[Positive, Meta(description="Requests a second that come back after a burst.")] = 10
    app_concurrency: Annotated[
        Positive, Meta(description="Requests of one app to one store that a worker runs at the same time.")
    ] = 20
    max_in_flight: Annotated[
        Positive, Meta(description="Requests a worker runs at the same time; more are shed with 503.")
    ] = 1000
    token_seconds: Annotated[Positive, Meta(description="How long an access token lives.")] = 3600
    drain_seconds: Annotated[
        Positive, Meta(description="How long running requests may take to finish at shutdown.")
    ] = 25
    webhook_allow: Annotated[
        str,
        Meta(
            description="Networks, addresses and host names that webhooks may go to besides public ones, over plain http too; for local development only."
        ),
    ] = ""
    sign_up: Annotated[
        Literal["open", "invite", "closed"],
        Meta(description="Who may make an account in the portal: anybody, those who were invited, or nobody."),
    ] = "invite"
    metrics: Annotated[str, Meta(description="Where Prometheus finds /metrics, as host:port; off for nowhere.")] = (
        "127.0.0.1:9464"
    )
    log_format: Annotated[
        Literal["auto", "json", "text"],
        Meta(description="Log lines as JSON or as text; auto is text in a terminal."),
    ] = "auto"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The least level that is logged.")
    ] = "info"
    access_log: Annotated[bool, Meta(description="One log line for each request.")] = True

    def __post_init__(self) -> None:
        if self.secret_key and (len(self.secret_key) < 2 * KEY_BYTES or not _is_hex(self.secret_key)):
            raise WrongSetting(f"STOA_SECRET_KEY must be an even number of hexadecimal digits, {2 * KEY_BYTES} or more")
        if self.database_url and not self.database_url.startswith(("postgresql://", "postgres://")):
            raise WrongSetting("STOA_DATABASE_URL must begin with postgresql://")
        if self.public_url and not self.public_url.startswith(("https://", "http://")):
            raise WrongSetting("STOA_PUBLIC_URL must begin with https:// or http://")
        if self.metrics != "off":
            metrics_address(self.metrics)


def _is_hex(text: str) -> bool:
    return len(text) % 2 == 0 and all(c in "0123456789abcdefABCDEF" for c in text)


def metrics_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise WrongSetting("STOA_METRICS must be host:port, such as 127.0.0.1:9464, or off")
    return host, int(port)


def load(environment: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Read the settings; command-line flags stand above the environment."""
    given = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(Settings):
        text = given.get(f"{PREFIX}{field.name.upper()}")
        if text:
            values[field.name] = _read(field, text)
    values.update({name: value for name, value in overrides.items() if value is not None})
    for name, value in values.items():
        _check(name, value)
    return Settings(**values)


def _read(field: msgspec.structs.FieldInfo, text: str) -> Any:
    try:
        return msgspec.convert(text, field.type, strict=False, dec_hook=lambda kind, value: kind(value))
    except msgspec.ValidationError as error:
        raise WrongSetting(f"{PREFIX}{field.name.upper()}={text[:80]!r} cannot be used: {_words(error)}") from error


def _check(name: str, value: Any) -> None:
    field = next(f for f in msgspec.structs.fields(Settings) if f.name == name)
    if isinstance(value, (str, int)):
        _read(field, str(value))


def _words(error: msgspec.ValidationError) -> str:
    return str(error).replace("Expected `", "expected `").split(" - at")[0]


def unknown(environment: Mapping[str, str] | None = None) -> list[str]:
    """Variables that look like settings but are none, each with the likeliest meaning."""
    given = os.environ if environment is None else environment
    names = {f"{PREFIX}{field.name.upper()}" for field in msgspec.structs.fields(Settings)}
    stray = sorted(name for name in given if name.startswith(PREFIX) and name not in names | _FOR_CALLERS)
    return [
        f"{name} is no setting"
        + (f"; did you mean {close[0]}?" if (close := difflib.get_close_matches(name, names, n=1)) else "")
        for name in stray
    ]


def secret_key(settings: Settings) -> bytes:
    """The key that credentials are hashed with; made on first use and kept readable by its owner alone."""
    if settings.secret_key:
        return bytes.fromhex(settings.secret_key)
    file = settings.data_dir / "secret.key"
    if not file.exists():
        _make_key(file)
    key = bytes.fromhex(file.read_text().strip())
    if len(key) < KEY_BYTES:
        raise WrongSetting(f"{file} must hold at least {2 * KEY_BYTES} hexadecimal digits; restore it from a backup")
    return key


def _make_key(file: Path) -> None:
    """Write a key whole or not at all; of several who try at once, the first one's counts."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_name(f"secret.{os.getpid()}.{os.urandom(4).hex()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
        handle.write(os.urandom(KEY_BYTES).hex() + "\n")
        handle.flush()
        os.fsync(handle.fileno())
    try:
        os.link(new, file)
    except FileExistsError:
        pass
    finally:
        new.unlink()


def described(settings: Settings) -> list[dict[str, str]]:
    """Each setting with its variable, value, default and purpose; a secret is never shown."""
    defaults = Settings()
    hints = get_type_hints(Settings, include_extras=True)
    return [
        {
            "variable": f"{PREFIX}{field.name.upper()}",
            "value": _shown(field.name, getattr(settings, field.name)),
            "default": _shown(field.name, getattr(defaults, field.name)),
            "description": next(m.description for m in hints[field.name].__metadata__ if m.description),
        }
        for field in msgspec.structs.fields(Settings)
    ]


def _shown(name: str, value: Any) -> str:
    if name in ("secret_key", "database_url") and value:
        return "(set)"
    return str(value).lower() if isinstance(value, bool) else str(value)
