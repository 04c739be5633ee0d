"""Clients that send requests and read no response: the memory that each of them costs the service."""

import asyncio
import socket
from contextlib import ExitStack
from pathlib import Path

import click

from tests.support.service import Account, Service

CLIENTS = 800
REQUESTS = 4  # of each client, on one connection without reading
PRODUCTS = 250
MOST_BYTES = 384 * 1024  # of the workers' memory for each client, besides a response that is its own
HOLD_S = 5.0
AT_ONCE = 8  # few enough that none is refused
_PAGE = 4096


async def hoard(folder: Path) -> bool:
    """Measure the workers before, while and after the clients are connected."""
    found: list[str] = []
    kept = served = True
    with Service(folder, workers=2, access_log=False, log_level="error", send_seconds=300) as service:
        account, other = await service.account("unread"), await service.account("other")
        await _fill(account)
        kinds = {
            "a list of 250 products": (f"/stores/{account.handle}/api/v3/app/products?limit=250", account.token),
            "the OpenAPI document": ("/openapi.json", ""),
        }
        for kind, (path, token) in kinds.items():
            size = await _warm_up(service, path, token)
            before = _memory(service)
            with ExitStack() as stack:
                for _ in range(CLIENTS // AT_ONCE):
                    connecting = [asyncio.to_thread(_connect, service.port, path, token) for _ in range(AT_ONCE)]
                    for client in await asyncio.gather(*connecting):
                        stack.enter_context(client)
                await asyncio.sleep(HOLD_S)
                during, kernel = _memory(service), _kernel_bytes()
                healthy = await _healthy(other)
            each = (during - before) / CLIENTS
            kept, served = kept and each <= MOST_BYTES + (size if token else 0), served and healthy
            found.append(
                f"{kind} ({size / 1000:.0f} kB): workers {before / 1e6:.0f} MB before and {during / 1e6:.0f} MB with"
                f" {CLIENTS} clients, {each / 1024:.0f} KiB each; buffers of the kernel {kernel / 1e6:.0f} MB"
            )
        clean = service.stop() == 0
    click.echo(f"unread: {'; '.join(found)}; others were served: {served}; exit code 0: {clean}")
    return kept and served and clean


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
    assert client.recv(12, socket.MSG_PEEK | socket.MSG_WAITALL) == b"HTTP/1.1 200"
    return client


def _memory(service: Service) -> int:
    """The resident memory of the web workers."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE for pid in service.workers())


def _kernel_bytes() -> int:
    """The memory of all TCP buffers of this machine, also of those in which the clients receive."""
    line = next(line for line in Path("/proc/net/sockstat").read_text().splitlines() if line.startswith("TCP:"))
    return int(line.split()[-1]) * _PAGE
