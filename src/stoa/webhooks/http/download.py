"""Downloads a file from an address that a user names: guarded like a delivery, and limited in time, bytes and redirects."""

import asyncio
import ssl
from urllib.parse import urljoin

from stoa.webhooks.http.address_guard import AddressRefused, Allowed, refuse_url
from stoa.webhooks.http.client import first_lines, origin_of
from stoa.webhooks.http.connections import Connections, InvalidResponse, ResponseReader
from stoa.webhooks.http.resolver import Resolve, UnknownHost

CONNECT_S = 5.0
MOST_REDIRECTS = 3
_HEADERS = {
    "accept": "image/avif,image/webp,image/*",
    "accept-encoding": "identity",
    "user-agent": "Stoa-Pictures/3",
    "connection": "close",
}
_REDIRECTS = (301, 302, 303, 307, 308)
_PASSING = (408, 425, 429, 500, 502, 503, 504)


class DownloadFailed(Exception):
    """A file that was not received; the message says why. `lasting` means that another try is useless."""

    def __init__(self, reason: str, *, lasting: bool) -> None:
        super().__init__(reason)
        self.lasting = lasting


class Downloader:
    """Downloads files. Each address is checked when it is dialed, also after a redirect."""

    def __init__(self, allowed: Allowed, *, seconds: float = 30.0, resolve: Resolve | None = None) -> None:
        self._allowed = allowed
        self._seconds = seconds
        self._connections = Connections(allowed, CONNECT_S, resolve)

    def close(self) -> None:
        self._connections.close()

    async def get(self, url: str, most: int) -> bytes:
        """The body of a successful response with at most this many bytes."""
        deadline = asyncio.get_running_loop().time() + self._seconds
        for _ in range(MOST_REDIRECTS + 1):
            refused = refuse_url(url, self._allowed)
            if refused is not None:
                raise DownloadFailed(f"the address {refused}", lasting=True)
            response = await self._request(url, deadline, most + 1)
            if response.status not in _REDIRECTS:
                return _body(response, most)
            url = _target(url, response)
        raise DownloadFailed(f"the server redirects more than {MOST_REDIRECTS} times", lasting=True)

    async def _request(self, url: str, deadline: float, most: int) -> ResponseReader:
        request = first_lines("GET", url, _HEADERS) + b"\r\n"
        try:
            async with asyncio.timeout_at(deadline):
                connection = await self._connections.connect(origin_of(url, self._allowed))
            try:
                return await connection.request(request, deadline, most)
            finally:
                connection.close()
        except AddressRefused:
            raise DownloadFailed("the address is not public", lasting=True) from None
        except UnknownHost:
            raise DownloadFailed("the host name has no address", lasting=False) from None
        except TimeoutError:
            raise DownloadFailed(
                f"the server did not send the file within {self._seconds:.0f} seconds", lasting=False
            ) from None
        except ssl.SSLError:
            raise DownloadFailed("the certificate of the server is invalid", lasting=True) from None
        except InvalidResponse:
            raise DownloadFailed("the server did not answer in HTTP", lasting=True) from None
        except OSError:
            raise DownloadFailed("the server cannot be reached", lasting=False) from None


def _target(url: str, response: ResponseReader) -> str:
    """The URL to which a response redirects."""
    [*_, location] = response.all(b"location") or [b""]
    try:
        return urljoin(url, location.decode("latin-1"))
    except ValueError:
        raise DownloadFailed("the server redirects to an invalid address", lasting=True) from None


def _body(response: ResponseReader, most: int) -> bytes:
    if response.status != 200:
        raise DownloadFailed(f"the server answered {response.status}", lasting=response.status not in _PASSING)
    if len(response.body) > most:
        raise DownloadFailed(f"the file has more than {most:,} bytes", lasting=True)
    return bytes(response.body)
