"""Settings: defaults, error messages, and a key on which several processes agree."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stoa.mail_settings import MailServer, Sender, read_mail_server, read_sender
from stoa.secret_keys import Keys, read_keys, text_of
from stoa.settings import Settings, WrongSetting, announced, described, load, secret_key, service_url, unknown
from tests.conftest import SECRET_KEY


def test_without_variables_the_defaults_apply() -> None:
    assert load({}) == Settings()


def test_options_take_precedence_over_the_environment() -> None:
    assert load({"STOA_PORT": "9000"}, port=9100, workers=None).port == 9100


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STOA_PORT", "abc"),
        ("STOA_PORT", "0"),
        ("STOA_PORT", "70000"),
        ("STOA_WORKERS", "-1"),
        ("STOA_LOG_FORMAT", "xml"),
        ("STOA_ACCESS_LOG", "perhaps"),
        ("STOA_METRICS", "9464"),
        ("STOA_DATABASE_URL", "mysql://x"),
        ("STOA_PUBLIC_URL", "example.com"),
        ("STOA_SECRET_KEY", "ab" * 10),
        ("STOA_SECRET_KEY", "a" * 65),
        ("STOA_SECRET_KEY", f"{SECRET_KEY},"),
        ("STOA_SECRET_KEY", f"{SECRET_KEY},short"),
        ("STOA_SMTP_URL", "http://mail.example.com"),
        ("STOA_SMTP_URL", "smtp://"),
        ("STOA_SMTP_URL", "smtp://mail.example.com:0"),
        ("STOA_SMTP_URL", "smtp://mail.example.com:99999"),
        ("STOA_SMTP_URL", "smtp://mail.example.com/path"),
        ("STOA_SMTP_URL", "smtp://mail.example.com?tls=off"),
        ("STOA_SMTP_URL", "smtps://mail.example.com?starttls"),
        ("STOA_SMTP_URL", "smtp://user:canary@mail.example.com"),
        ("STOA_SMTP_URL", "smtp://user@localhost"),
        ("STOA_SMTP_URL", "smtps://user:canary%0a@localhost"),
        ("STOA_SMTP_URL", "smtps://user:canary%C3%A9@localhost"),
        ("STOA_SMTP_URL", "smtps://mail.example.com"),
        ("STOA_MAIL_FROM", "Stoa"),
        ("STOA_MAIL_FROM", "a@example.com, b@example.com"),
        ("STOA_MAIL_FROM", "a@example.com\nBcc: b@example.com"),
    ],
)
def test_an_invalid_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(WrongSetting, match=name) as raised:
        load({name: value})
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://u%40x:p%3Aw@mail.example.com?starttls", MailServer("mail.example.com", 587, "u@x", "p:w", "starttls")),
        ("smtps://u:p@[2001:db8::1]", MailServer("2001:db8::1", 465, "u", "p", "implicit")),
        ("smtp://127.0.0.1:2525/", MailServer("127.0.0.1", 2525, "", "", "none")),
    ],
)
def test_the_url_of_a_mail_server_is_read(url: str, server: MailServer) -> None:
    assert read_mail_server(url) == server
    assert "p:w" not in repr(server)


def test_the_sender_is_an_address_with_or_without_a_name() -> None:
    assert read_sender("Stoa of Attalos <noreply@example.com>") == Sender("Stoa of Attalos", "noreply@example.com")
    assert read_sender("noreply@example.com").domain == "example.com"


def test_an_unknown_variable_is_reported_with_the_most_similar_setting() -> None:
    assert unknown({"STOA_PROT": "1", "STOA_CLIENT_ID": "x", "HOME": "/"}) == [
        "STOA_PROT is not a setting; did you mean STOA_PORT?"
    ]


def test_secrets_are_never_shown() -> None:
    rows = described(
        load(
            {},
            secret_key=SECRET_KEY,
            database_url="postgresql://u:canary@h/d",
            smtp_url="smtps://u:canary@h",
            mail_from="a@example.com",
        )
    )
    assert "canary" not in str(rows)
    assert SECRET_KEY not in str(rows)
    assert all(row["description"] for row in rows)


def test_concurrent_creation_yields_one_key(tmp_path: Path) -> None:
    settings = load({}, data_dir=tmp_path)
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(secret_key, [settings] * 40))
    assert len(keys) == 1
    assert len(keys.pop().current) == 32
    assert [file.name for file in tmp_path.iterdir()] == ["secret.key"]
    assert (tmp_path / "secret.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "weak",
    [
        "0" * 64,
        "ff" * 40,
        "0123456789abcdef" * 4,
        "deadbeef" * 8,
        bytes(range(32)).hex(),
        bytes(range(64, 0, -1)).hex(),
    ],
)
def test_a_key_that_a_person_wrote_is_refused(weak: str, tmp_path: Path) -> None:
    for read in (
        lambda: load({"STOA_SECRET_KEY": weak}),
        lambda: load({"STOA_SECRET_KEY": f"{weak},{SECRET_KEY}"}),
        lambda: secret_key(load({}, data_dir=tmp_path)),
    ):
        (tmp_path / "secret.key").write_text(weak)
        with pytest.raises(WrongSetting, match="openssl rand -hex 32") as raised:
            read()
        assert weak not in str(raised.value)
    replaced = load({"STOA_SECRET_KEY": f"{SECRET_KEY},{weak}"})  # the way out, without a loss
    assert secret_key(replaced).others == (bytes.fromhex(weak),)


def test_random_keys_are_accepted() -> None:
    for _ in range(2_000):
        load({"STOA_SECRET_KEY": secrets.token_hex(32)})


def test_the_first_key_writes_and_all_keys_read(tmp_path: Path) -> None:
    first, second, third = (secrets.token_bytes(32) for _ in range(3))
    given = load({"STOA_SECRET_KEY": f"{first.hex()}, {second.hex()},{first.hex()}"})
    assert secret_key(given) == Keys(first, (second,))
    (tmp_path / "secret.key").write_text(f"{first.hex()}\n{second.hex()}\n")
    assert secret_key(load({}, data_dir=tmp_path)) == Keys(first, (second,))
    keys = Keys(first, (second,), (third,))
    assert read_keys(text_of(keys)) == keys


def test_a_damaged_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.key").write_text("\n")
    with pytest.raises(WrongSetting, match=r"secret\.key"):
        secret_key(load({}, data_dir=tmp_path))


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({"port": 9100}, "http://localhost:9100"),
        ({"host": "::", "port": 9100}, "http://localhost:9100"),
        ({"host": "192.0.2.7"}, "http://192.0.2.7:8000"),
        ({"host": "2001:db8::7"}, "http://[2001:db8::7]:8000"),
        ({"public_url": "https://api.example.com/"}, "https://api.example.com"),
    ],
)
def test_the_url_of_the_service_is_the_public_one_or_its_address(
    tmp_path: Path, given: dict[str, str | int], url: str
) -> None:
    assert service_url(load({}, data_dir=tmp_path, **given)) == url


def test_a_command_finds_the_address_of_the_running_service(tmp_path: Path) -> None:
    command = load({}, data_dir=tmp_path)
    with announced(load({}, data_dir=tmp_path, port=9100)):
        assert service_url(command) == "http://localhost:9100"
        assert (
            service_url(load({}, data_dir=tmp_path, public_url="https://api.example.com")) == "https://api.example.com"
        )
    assert service_url(command) == "http://localhost:8000"
