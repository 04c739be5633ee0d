"""Clients that send requests and read no response: the memory that each of them costs the service."""

import asyncio
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import msgspec

from tests.support.service import Account, Service

WORKERS = 2
CLIENTS = 800
REQUESTS = 4  # of each client, on one connection without reading
PRODUCTS = 250
MOST_BYTES = 384 * 1024  # of the workers' memory for each client, besides a response that is its own
HOLD_S = 5.0
AT_ONCE = 8  # few enough that none is refused
LIMIT_BYTES = 32_000_000  # of the limited service; the clients would leave four times as much
DOCUMENT = ("/openapi.json", "")
ESTABLISHED = 1  # the first byte of `struct tcp_info`
_PAGE = 4096


class Crowd(msgspec.Struct):
    """The memory of the workers without and with the clients, of the kernel with them, and how many were disconnected."""

    before: int
    during: int
    kernel: int
    disconnected: int
    others_served: bool

    def __str__(self) -> str:
        memory = f"workers {self.before / 1e6:.0f} MB before and {self.during / 1e6:.0f} MB with {CLIENTS} clients"
        each = f"{(self.during - self.before) / CLIENTS / 1024:.0f} KiB each"
        return f"{memory}, {each}, {self.disconnected} of them disconnected; buffers of the kernel {self.kernel / 1e6:.0f} MB"


async def hoard(folder: Path) -> bool:
    """Measure the workers before and while the clients are connected, then the same with a lower limit."""
    found: list[str] = []
    kept = True
    settings: dict[str, Any] = {"workers": WORKERS, "access_log": False, "log_level": "error", "send_seconds": 300}
    with Service(folder / "default", **settings, address_unsent_bytes=1_000_000_000) as service:
        account, other = await service.account("unread"), await service.account("other")
        await _fill(account)
        for kind, (path, token) in {"a list of 250 products": _list(account), "the OpenAPI document": DOCUMENT}.items():
            size = await _warm_up(service, path, token)
            crowd = await _crowd(service, other, path, token)
            most = CLIENTS * (MOST_BYTES + (size if token else 0))
            kept &= crowd.during - crowd.before <= most and not crowd.disconnected and crowd.others_served
            found.append(f"{kind} ({size / 1000:.0f} kB): {crowd}, others were served: {crowd.others_served}")
        clean = service.stop() == 0
    with Service(folder / "limited", **settings, max_unsent_bytes=LIMIT_BYTES) as service:
        account, other = await service.account("unread"), await service.account("other")
        await _fill(account)
        path, token = _list(account)
        await _warm_up(service, path, token)
        crowd = await _crowd(service, other, path, token)
        kept &= crowd.during - crowd.before <= 2 * WORKERS * LIMIT_BYTES
        kept &= crowd.disconnected > 0 and crowd.others_served
        limited = f"the list with at most {LIMIT_BYTES / 1e6:.0f} MB unsent in each worker"
        found.append(f"{limited}: {crowd}, others were served: {crowd.others_served}")
        clean &= service.stop() == 0
    click.echo(f"unread: {'; '.join(found)}; exit code 0: {clean}")
    return kept and clean


def _list(account: Account) -> tuple[str, str]:
    return f"/stores/{account.handle}/api/v3/app/products?limit=250", account.token


async def _crowd(service: Service, other: Account, path: str, token: str) -> Crowd:
    before, clients, served = _memory(service), list[socket.socket](), True
    with ExitStack() as stack:
        for _ in range(CLIENTS // AT_ONCE):
            connecting = [asyncio.to_thread(_connect, service.port, path, token) for _ in range(AT_ONCE)]
            for client in await asyncio.gather(*connecting):
                clients.append(stack.enter_context(client))
            served &= await other.statuses(1) == {200}  # also while they connect
        await asyncio.sleep(HOLD_S)
        during, kernel = _memory(service), _kernel_bytes()
        closed = sum(each.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != ESTABLISHED for each in clients)
        return Crowd(before, during, kernel, closed, served and await _healthy(other))


async def _healthy(account: Account) -> bool:
    """Whether other callers are served, at the latest when the requests of the clients are answered as far as they take it."""
    for _ in range(20):
        if await account.statuses() == {200}:
            return True
        await asyncio.sleep(1)
    return False


async def _fill(account: Account) -> None:
    async with account.client() as client:
        for start in range(0, PRODUCTS, 50):
            items = [
                {"op": "create", "data": {"name": f"Mug {n}", "price": "9.90", "description": "A mug of clay. " * 60}}
                for n in range(start, start + 50)
            ]
            answer = await client.post("/products/batch", json={"items": items})
            assert answer.is_success, answer.text


async def _warm_up(service: Service, path: str, token: str) -> int:
    headers = {"accept-encoding": "identity", **({"authorization": f"Bearer {token}"} if token else {})}
    size = 0
    for _ in range(20):
        async with service.client(headers=headers) as client:
            answer = await client.get(path)
            assert answer.status_code == 200, answer.text
            size = len(answer.content)
    return size


def _connect(port: int, path: str, token: str) -> socket.socket:
    client = socket.socket()
    client.settimeout(30)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)  # the service must keep the rest
    client.connect(("127.0.0.1", port))
    access = f"authorization: Bearer {token}\r\n" if token else ""
    client.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n{access}\r\n".encode() * REQUESTS)
    client.recv(12, socket.MSG_PEEK)  # it is being answered
    return client


def _memory(service: Service) -> int:
    """The resident memory of the web workers."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE for pid in service.workers())


def _kernel_bytes() -> int:
    """The memory of all TCP buffers of this machine, also of those in which the clients receive."""
    line = next(line for line in Path("/proc/net/sockstat").read_text().splitlines() if line.startswith("TCP:"))
    return int(line.split()[-1]) * _PAGE
