"""Deliveries go only to public addresses; a private address is refused in every notation."""

import asyncio
import ipaddress
import socket
import threading
from typing import Any

import pytest

from stoa.settings import Settings, WrongSetting, load
from stoa.webhooks.http.address_guard import Allowed, check_setting, is_public, may_dial, refuse_host, refuse_url
from stoa.webhooks.http.client import Sender, Target
from stoa.webhooks.http.resolver import Infos, Resolve
from tests.support.receivers import Receiver
from tests.webhooks.workers import quick_sender

NOTHING = Allowed()

PRIVATE = """
    0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.254 168.63.129.16
    169.254.169.254 169.254.0.1 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1
    198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
    :: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe
    64:ff9b:1::1 100::1 2001::1 2001:0:7f00:1:: 2001:1ff::1 2001:db8::1 2002:7f00:1:: 2002:a9fe:a9fe:: 3fff::1 3fff:fff::1
    4000::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fe80::a9fe:a9fe fec0::1 ff02::1 ff0e::1
""".split()
PUBLIC = """
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.1 100.63.255.255 100.128.0.1 128.0.0.1 168.63.129.17 172.15.255.255 172.32.0.1
    192.0.1.1 192.167.255.255 193.0.0.1 198.17.255.255 198.20.0.1 223.255.255.255 2001:4860:4860::8888 2606:4700::1111
    2a00:1450::1 ::ffff:8.8.8.8 2001:200::1 2003::1
""".split()


@pytest.mark.parametrize("text", PRIVATE)
def test_a_private_address_is_never_dialed(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))
    assert not may_dial(ipaddress.ip_address(text), NOTHING)


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_dialed(text: str) -> None:
    assert may_dial(ipaddress.ip_address(text), NOTHING)


REFUSED_URLS = """
    http://example.com/ ftp://example.com/ file:///etc/passwd gopher://example.com/ //example.com/ example.com https:// https:///x
    javascript:alert(1) https://127.0.0.1/ https://127.0.0.1:8443/ https://127.1/ https://127.0.1/ https://0/ https://0x7f.1/
    https://0x7f000001/ https://2130706433/ https://017700000001/ https://0177.0.0.1/ https://127.0.0.1./ https://[::1]/
    https://[::ffff:127.0.0.1]/ https://[::ffff:7f00:1]/ https://[64:ff9b::7f00:1]/ https://[fe80::1]/ https://[fe80::1%25eth0]/
    https://[2002:7f00:1::]/ https://[::]/ https://169.254.169.254/latest/meta-data https://10.0.0.1/ https://192.168.1.1/
    https://172.16.0.9/ https://100.64.0.1/ https://168.63.129.16/ https://192.0.0.192/ https://localhost/ https://LOCALHOST/
    https://localhost./ https://a.localhost/ https://printer.local/ https://vault.internal/ https://db/ https://user@example.com/
    https://user:pass@example.com/ https://example.com@127.0.0.1/ https://127.0.0.1#@example.com/ https://example.com/#part
    https://example.com:0/ https://example.com:99999/ https://example.com:x/ https://exa\tmple.com/ https://example.com/\x00
    https://example.com\\@127.0.0.1/ https://-a.example.com/ https://a..example.com/ https://[::1/ https://[zz]/
    https://①②⑦.⓪.⓪.①/ https://ⓛocalhost/ https://example.com/é https://1.2.3.4.5/ https://256.1.1.1/ https://0xdeadbeef.1/
""".split(" ")


@pytest.mark.parametrize("url", [each.strip("\n") for each in REFUSED_URLS if each.strip()])
def test_an_invalid_or_private_url_is_refused(url: str) -> None:
    assert refuse_url(url, NOTHING) is not None


@pytest.mark.parametrize("host", ["a" * 64 + ".example.com", ".".join(["a" * 60] * 5), "x" * 3000])
def test_a_url_that_is_too_long_is_refused(host: str) -> None:
    assert refuse_url(f"https://{host}/", NOTHING) is not None


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com/stoa?key=1",
        "https://hooks.example.com:8443/",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]/x",
        "HTTPS://Hooks.Example.COM./",
        "https://xn--mnchen-3ya.example.com/",
    ],
)
def test_a_public_url_is_accepted(url: str) -> None:
    assert refuse_url(url, NOTHING) is None


def test_an_allowed_host_is_also_accepted_over_plain_http() -> None:
    allowed = Allowed.parse("localhost, 127.0.0.0/8 ::1 receiver.internal")
    for url in (
        "http://localhost:3000/",
        "http://127.0.0.9/",
        "https://[::1]/",
        "http://receiver.internal/",
        "http://LOCALHOST./",
    ):
        assert refuse_url(url, allowed) is None, url
    for url in ("http://10.0.0.1/", "http://example.com/", "http://other.internal/"):
        assert refuse_url(url, allowed) is not None, url


@pytest.mark.parametrize("text", ["10.0.0.1/8", "a b!c", "999.0.0.1", "http://localhost"])
def test_an_invalid_allow_list_is_refused(text: str) -> None:
    with pytest.raises(WrongSetting, match="STOA_WEBHOOK_ALLOW"):
        Allowed.parse(text)


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::"])  # noqa: S104
def test_an_allow_list_is_refused_on_a_host_that_is_not_loopback(host: str) -> None:
    with pytest.raises(WrongSetting, match="local development"):
        check_setting(Settings(host=host, webhook_allow="localhost"))
    check_setting(Settings(host=host))
    check_setting(Settings(webhook_allow="localhost"))


async def test_a_name_that_resolves_only_to_private_addresses_is_refused() -> None:
    assert refuse_url("https://localhost.example.com/", NOTHING) is None
    assert await refuse_host("https://localhost/", NOTHING) is not None
    assert await refuse_host("https://no-such-name.invalid/", NOTHING) is None


async def test_names_whose_dns_servers_are_silent_leave_other_lookups_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    find, end, begun = socket.getaddrinfo, threading.Event(), list[str]()

    def silent(host: str, *args: Any, **kwargs: Any) -> Any:
        if host.endswith(".silent.example"):
            begun.append(host)
            end.wait()
            raise socket.gaierror
        return find(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    checks = [asyncio.create_task(refuse_host(f"https://{n}.silent.example/", NOTHING)) for n in range(100)]
    looking_up = asyncio.create_task(asyncio.get_running_loop().getaddrinfo("localhost", 80))
    try:
        assert await asyncio.gather(*checks) == [None] * 100
        assert looking_up.done(), "a lookup of anything else, such as that of the database"
        assert len(begun) <= 32
    finally:
        end.set()
    await looking_up


def rebound(*addresses: str) -> Resolve:
    """A resolver that resolves every name to these addresses, as after DNS rebinding."""

    async def resolve(_host: str, port: int) -> Infos:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port)) for address in addresses]

    return resolve


@pytest.mark.parametrize("addresses", [("127.0.0.1",), ("127.0.0.1", "127.0.0.2"), ("169.254.169.254", "10.0.0.1")])
async def test_a_resolved_address_is_checked_when_it_is_dialed(
    addresses: tuple[str, ...],
) -> None:
    async with Receiver() as receiver, Sender(NOTHING, connect_timeout_s=1, resolve=rebound(*addresses)) as sender:
        url = f"https://hooks.example.com:{receiver.port}/"
        assert refuse_url(url, NOTHING) is None
        answer = await sender.send(Target(url, ["whsec_" + "A" * 44]), "evt_1", b"{}")
        assert answer.error == "address_refused: the URL must have a public address"
        assert receiver.received == []


async def test_a_literal_address_is_checked_when_it_is_dialed() -> None:
    async with Receiver() as receiver, quick_sender(NOTHING) as sender:
        for url in (receiver.url, f"https://127.0.0.1:{receiver.port}/"):
            answer = await sender.send(Target(url, ["whsec_" + "A" * 44]), "evt_1", b"{}")
            assert answer.status is None
            assert (answer.error or "").startswith("address_refused")
        assert receiver.received == []


def test_the_setting_is_read_from_the_environment() -> None:
    assert load({"STOA_WEBHOOK_ALLOW": "localhost"}).webhook_allow == "localhost"
