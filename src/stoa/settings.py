"""The settings of the service: one frozen struct, read from the environment once, with a default for each."""

import difflib
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta

from stoa.mail_settings import read_mail_server, read_sender
from stoa.secret_keys import KEY_BYTES, Keys, read_keys

PREFIX = "STOA_"
_ADDRESS_FILE = "address"
_LOCAL_HOSTS = ("127.0.0.1", "0.0.0.0", "::1", "::")  # noqa: S104 - not a socket
# Variables of callers, which `stoa demo` prints, of `stoa mcp`, and of `stoa app push`; the service ignores them.
_FOR_CALLERS = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *("BASE_URL", "AUTH_URL", "CLIENT_ID", "CLIENT_SECRET", "PORTAL_URL", "PORTAL_EMAIL", "PORTAL_PASSWORD"),
        *("MCP_TOKEN", "SERVICE_URL", "DEPLOY_TOKEN", "WEBHOOK_SECRET"),
    )
)

_URLS = ("database_url", "database_direct_url", "database_read_url")

Port = Annotated[int, Meta(ge=1, le=65535)]
Positive = Annotated[int, Meta(ge=1)]


class WrongSetting(Exception):
    """A setting is invalid; the message names it and says what is valid."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The service's settings. Each is read from the environment variable STOA_ + its name in capitals."""

    host: Annotated[str, Meta(description="Address to listen on; 0.0.0.0 for every interface.")] = "127.0.0.1"
    port: Annotated[Port, Meta(description="Port to listen on.")] = 8000
    workers: Annotated[Positive, Meta(description="Number of processes that serve requests.")] = 1
    data_dir: Annotated[
        Path, Meta(description="Folder for the embedded database, the secret key and the demo's credentials.")
    ] = Path(".stoa")
    media_url: Annotated[
        str,
        Meta(
            description="Where pictures are stored: file:///folder, or https://KEY:SECRET@s3.example.com/bucket?region=... of an S3-compatible service; empty uses the folder media in the data folder."
        ),
    ] = ""
    media_keep_days: Annotated[
        int,
        Meta(
            ge=1,
            description="Days after which a picture that nothing shows any more is removed; a backup older than this may refer to removed files.",
        ),
    ] = 7
    database_url: Annotated[
        str,
        Meta(
            description="postgresql:// URL of a PostgreSQL 15 or newer; empty runs an embedded server in the data folder."
        ),
    ] = ""
    database_direct_url: Annotated[
        str,
        Meta(
            description="URL of the server itself if STOA_DATABASE_URL leads through a connection pooler; for notifications, migrations and backups."
        ),
    ] = ""
    database_read_url: Annotated[
        str,
        Meta(
            description="URL of one standby, which serves lists and reads of the app API when it has replayed everything committed before; empty uses the primary."
        ),
    ] = ""
    database_pool: Annotated[Positive, Meta(description="Maximum number of database connections of each worker.")] = 10
    public_url: Annotated[
        str,
        Meta(
            description="The service's URL as callers see it, such as https://api.example.com; empty derives it from each request."
        ),
    ] = ""
    mcp_url: Annotated[
        str,
        Meta(
            description="The URL of `stoa mcp --http --oauth` as callers see it, such as https://mcp.example.com: apps request tokens for {this URL}/stores/{handle}/mcp; empty refuses them."
        ),
    ] = ""
    proxies: Annotated[
        int,
        Meta(
            ge=0,
            description="Number of your proxies in front of the service; if not 0, client addresses and the scheme come from X-Forwarded-For and X-Forwarded-Proto.",
        ),
    ] = 0
    store_domain: Annotated[
        str, Meta(description="Stores are reachable at {handle}.{this domain} as well as at /stores/{handle}.")
    ] = "localhost"
    secret_key: Annotated[
        str,
        Meta(
            description="Key with which credentials are hashed and encrypted, 32 bytes or more as hexadecimal digits; several, separated by commas, while a key is replaced; empty uses a key in the data folder."
        ),
    ] = ""
    rate_burst: Annotated[
        Positive, Meta(description="Burst limit: requests that an app may send to a store at once.")
    ] = 600
    rate_refill: Annotated[Positive, Meta(description="Refill rate of the burst limit, in requests per second.")] = 10
    app_concurrency: Annotated[
        Positive, Meta(description="Concurrent requests of one app to one store in each worker.")
    ] = 20
    max_in_flight: Annotated[
        Positive, Meta(description="Concurrent requests in each worker; more are shed with 503.")
    ] = 1000
    max_pages_in_flight: Annotated[
        Positive,
        Meta(
            description="Concurrent requests for pages of the portal and the documentation in each worker; more are refused with 503."
        ),
    ] = 64
    address_pages_in_flight: Annotated[
        Positive,
        Meta(description="Concurrent requests for pages from one address in each worker; more are refused with 429."),
    ] = 16
    max_unsent_bytes: Annotated[
        Positive,
        Meta(
            description="Bytes of responses in each worker that clients have not taken; above them, the slowest clients are disconnected."
        ),
    ] = 256 * 1024 * 1024
    address_unsent_bytes: Annotated[
        Positive,
        Meta(
            description="Bytes of responses in each worker that clients of one address have not taken; above them, the slowest are disconnected."
        ),
    ] = 32 * 1024 * 1024
    max_upload_bytes: Annotated[
        int,
        Meta(
            ge=100_000_000,
            description="Bytes of concurrent uploads in the temporary files of each worker, after decompression; more are refused with 503.",
        ),
    ] = 256 * 1024 * 1024
    app_upload_bytes: Annotated[
        int,
        Meta(
            ge=100_000_000,
            description="Bytes of concurrent uploads of one app, or of one account in the portal, in each worker; more are refused with 429.",
        ),
    ] = 128 * 1024 * 1024
    token_seconds: Annotated[Positive, Meta(description="Lifetime of an access token, in seconds.")] = 3600
    send_seconds: Annotated[
        Positive, Meta(description="Seconds after which a connection is closed if its client takes no data.")
    ] = 30
    shutdown_delay_seconds: Annotated[
        int,
        Meta(
            ge=0,
            description="Seconds after SIGTERM in which requests are served but /ready fails, so that your proxy sends them elsewhere.",
        ),
    ] = 5
    drain_seconds: Annotated[
        Positive, Meta(description="Seconds that running requests have to finish at shutdown, after the delay.")
    ] = 25
    webhook_allow: Annotated[
        str,
        Meta(
            description="Networks, addresses and host names that webhooks may reach besides public ones, also over plain http; for local development only."
        ),
    ] = ""
    sign_up: Annotated[
        Literal["open", "invite", "closed"],
        Meta(
            description="Who may create an account in the portal: anyone (open), invited people (invite) or no one (closed)."
        ),
    ] = "invite"
    smtp_url: Annotated[
        str,
        Meta(
            description="URL of the mail server, such as smtp://user:password@mail.example.com:587?starttls or smtps://...; empty sends no email."
        ),
    ] = ""
    mail_from: Annotated[
        str, Meta(description="Sender of every email, such as Stoa <noreply@example.com>; needed with STOA_SMTP_URL.")
    ] = ""
    request_log_days: Annotated[
        int, Meta(ge=1, le=90, description="Days for which the request log of each app is kept.")
    ] = 7
    request_log_rows: Annotated[
        int,
        Meta(
            ge=100, le=1_000_000, description="Most requests in the log of each app; the oldest ones are deleted first."
        ),
    ] = 50_000
    metrics: Annotated[
        str, Meta(description="Address of the Prometheus endpoint /metrics, as host:port; off disables it.")
    ] = "127.0.0.1:9464"
    otlp_endpoint: Annotated[
        str,
        Meta(
            description="URL of an OpenTelemetry collector to which traces are sent by OTLP over HTTP, such as http://127.0.0.1:4318; empty traces nothing."
        ),
    ] = ""
    log_format: Annotated[
        Literal["auto", "json", "text"],
        Meta(description="Format of log lines; auto is text in a terminal and JSON elsewhere."),
    ] = "auto"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Lowest level that is logged.")
    ] = "info"
    access_log: Annotated[bool, Meta(description="Whether to log each request.")] = True
    demo: Annotated[
        bool,
        Meta(
            description="Whether all stores are samples: people can place sample orders in them, and a receiver of this service verifies webhooks. `stoa demo` sets it; leave it off elsewhere."
        ),
    ] = False

    @property
    def direct_url(self) -> str:
        """The URL for work that needs a session of its own."""
        return self.database_direct_url or self.database_url

    def __post_init__(self) -> None:
        for name in _URLS:
            url = getattr(self, name)
            if url and not url.startswith(("postgresql://", "postgres://")):
                raise WrongSetting(f"{PREFIX}{name.upper()} must begin with postgresql://")
        if self.database_direct_url and not self.database_url:
            raise WrongSetting("STOA_DATABASE_DIRECT_URL needs STOA_DATABASE_URL, which it replaces for some work")
        if self.database_read_url and not self.database_url:
            raise WrongSetting("STOA_DATABASE_READ_URL needs STOA_DATABASE_URL: the embedded server has no standby")
        if "," in self.database_read_url.partition("//")[2].partition("/")[0].rpartition("@")[2]:
            raise WrongSetting("STOA_DATABASE_READ_URL must name one server, whose position in the log is followed")
        if self.public_url and not self.public_url.startswith(("https://", "http://")):
            raise WrongSetting("STOA_PUBLIC_URL must begin with https:// or http://")
        if self.media_url and not self.media_url.startswith(("file:///", "https://", "http://")):
            raise WrongSetting("STOA_MEDIA_URL must begin with file:///, https:// or http://")
        if self.otlp_endpoint and not self.otlp_endpoint.startswith(("https://", "http://")):
            raise WrongSetting("STOA_OTLP_ENDPOINT must begin with https:// or http://")
        if self.metrics != "off":
            metrics_address(self.metrics)
        for name, read in (("secret_key", read_keys), ("smtp_url", read_mail_server), ("mail_from", read_sender)):
            try:
                _ = read(value) if (value := getattr(self, name)) else None
            except ValueError as error:
                raise WrongSetting(f"{PREFIX}{name.upper()} {error}") from None
        if self.smtp_url and not self.mail_from:
            raise WrongSetting("STOA_SMTP_URL needs STOA_MAIL_FROM, the sender of every email")


def metrics_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise WrongSetting("STOA_METRICS must be host:port, such as 127.0.0.1:9464, or off")
    return host, int(port)


def load(environment: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Read the settings; command-line options take precedence over the environment."""
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
        raise WrongSetting(f"{PREFIX}{field.name.upper()}={text[:80]!r} is invalid: {_message(error)}") from error


def _check(name: str, value: Any) -> None:
    field = next(f for f in msgspec.structs.fields(Settings) if f.name == name)
    if isinstance(value, (str, int)):
        _read(field, str(value))


def _message(error: msgspec.ValidationError) -> str:
    return str(error).replace("Expected `", "expected `").split(" - at")[0]


def unknown(environment: Mapping[str, str] | None = None) -> list[str]:
    """Warnings about variables that look like settings but are none, each with the most similar setting."""
    given = os.environ if environment is None else environment
    names = {f"{PREFIX}{field.name.upper()}" for field in msgspec.structs.fields(Settings)}
    unused = sorted(name for name in given if name.startswith(PREFIX) and name not in names | _FOR_CALLERS)
    return [
        f"{name} is not a setting"
        + (f"; did you mean {close[0]}?" if (close := difflib.get_close_matches(name, names, n=1)) else "")
        for name in unused
    ]


def service_url(settings: Settings) -> str:
    """The URL at which people reach the service: the public one, the one it listens on, or the one it would listen on."""
    file = settings.data_dir / _ADDRESS_FILE
    if settings.public_url or not file.exists():
        return settings.public_url.rstrip("/") or _local_url(settings)
    return file.read_text().strip()


@contextmanager
def announced(settings: Settings) -> Generator[None]:
    """Keep the service's URL in the data folder while it runs, because commands do not know the options of `stoa serve`."""
    file = settings.data_dir / _ADDRESS_FILE
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_name(f"{_ADDRESS_FILE}.{os.getpid()}")
    new.write_text(f"{_local_url(settings)}\n")
    new.replace(file)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def _local_url(settings: Settings) -> str:
    host = "localhost" if settings.host in _LOCAL_HOSTS else settings.host
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


def secret_key(settings: Settings) -> Keys:
    """The keys with which credentials are hashed and encrypted; one is created on first use, readable only by its owner."""
    if settings.secret_key:
        return read_keys(settings.secret_key)
    file = settings.data_dir / "secret.key"
    if not file.exists():
        _create_key(file)
    try:
        return read_keys(file.read_text())
    except ValueError as error:
        raise WrongSetting(f"{file} {error}; or restore it from a backup") from None


def existing_key(settings: Settings) -> Keys | None:
    """The keys, or None if none was created yet; for checks, which must not create one."""
    created = settings.secret_key or (settings.data_dir / "secret.key").exists()
    return secret_key(settings) if created else None


def _create_key(file: Path) -> None:
    """Create the key file atomically; if several processes try at once, the first one wins."""
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
    """Each setting with its variable, value, default and description; secrets are not shown."""
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
    if name in ("secret_key", "smtp_url", "media_url", *_URLS) and value:
        return "(set)"
    return str(value).lower() if isinstance(value, bool) else str(value)
