"""Runs the decoder beside the event loop: in a process of its own that is started when needed and killed when it takes too long."""

import asyncio
import contextlib
import hashlib
import signal
import sys

import msgspec

from stoa.media.contract import LENGTH, REPLY, DecoderBusy, PictureRefused

DECODE_S = 30.0  # for one picture on a busy machine, with the start of the process
WAIT_S = 15.0  # for a decoder that works on other pictures
MOST_WAITING = 64
_ENDING_S = 2.0  # until a process that has closed its pipe is gone
_MOST_PICTURES = 500  # that one process decodes, because libraries keep memory


class _Facts(msgspec.Struct):
    refused: str = ""
    media: str = ""
    extension: str = ""
    width: int = 0
    height: int = 0
    widths: list[int] = []
    sizes: list[int] = []


class DecodedPicture(msgspec.Struct, frozen=True):
    """A picture to store: the file itself, and a smaller one for each width below its own."""

    media: str  # of the file that was decoded
    extension: str
    width: int
    height: int
    file: bytes
    smaller: dict[int, bytes]

    @property
    def sha256(self) -> bytes:
        return hashlib.sha256(self.file).digest()


class Decoder:
    """Decodes pictures, each in one of a few processes; the others wait for their turn."""

    def __init__(self, processes: int = 1, seconds: float = DECODE_S, wait_s: float = WAIT_S) -> None:
        self._wait_s = wait_s
        self._children = [_Child(seconds) for _ in range(processes)]
        self._idle = list(self._children)
        self._turn = asyncio.Semaphore(processes)
        self._waiting = 0

    async def decode(self, data: bytes | memoryview, *, encoded: bool = False) -> DecodedPicture:
        """Decode a picture, or base64 of one if `encoded`. Raises PictureRefused, or DecoderBusy after a long wait."""
        if self._waiting >= MOST_WAITING:
            raise DecoderBusy
        self._waiting += 1
        try:
            async with asyncio.timeout(self._wait_s):
                await self._turn.acquire()
        except TimeoutError:
            raise DecoderBusy from None
        finally:
            self._waiting -= 1
        child = self._idle.pop()
        try:
            return await child.decode(data, encoded=encoded)
        finally:
            self._idle.append(child)
            self._turn.release()

    async def close(self) -> None:
        """Kill the processes; the next picture starts another one."""
        for child in self._children:
            await child.close()


class _Child:
    """A process that decodes one picture at a time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._process: asyncio.subprocess.Process | None = None
        self._decoded = 0

    async def decode(self, data: bytes | memoryview, *, encoded: bool) -> DecodedPicture:
        process = await self._started()
        try:
            async with asyncio.timeout(self._seconds):
                return await _exchange(process, data, encoded=encoded)
        except TimeoutError:
            await self.close()
            raise DecoderBusy from None
        except (asyncio.IncompleteReadError, ConnectionError):
            slow = await self.close(patience_s=_ENDING_S) == -signal.SIGXCPU
            raise PictureRefused("takes too long to decode" if slow else "cannot be decoded") from None
        except asyncio.CancelledError:
            await self.close()  # the rest of its reply would be read as that of the next picture
            raise

    async def _started(self) -> asyncio.subprocess.Process:
        if self._decoded >= _MOST_PICTURES:
            await self.close()
        if self._process is None or self._process.returncode is not None:
            self._decoded = 0
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-m",
                "stoa.media.decoder",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=1 << 20,
                env={},
            )
        self._decoded += 1
        return self._process

    async def close(self, *, patience_s: float = 0.0) -> int | None:
        """End the process, and return its exit code; a process that is ending has some time to do so by itself."""
        process, self._process = self._process, None
        if process is None:
            return None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(process.wait()), patience_s)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        if process.stdin is not None:
            process.stdin.close()
        return await asyncio.shield(process.wait())


async def _exchange(process: asyncio.subprocess.Process, data: bytes | memoryview, *, encoded: bool) -> DecodedPicture:
    requests, replies = process.stdin, process.stdout
    if requests is None or replies is None:
        raise ConnectionError
    requests.write(LENGTH.pack(len(data), encoded))
    requests.write(data)
    await requests.drain()
    (size,) = REPLY.unpack(await replies.readexactly(REPLY.size))
    facts = msgspec.json.decode(await replies.readexactly(size), type=_Facts)
    if facts.refused:
        raise PictureRefused(facts.refused)
    file, *smaller = [await replies.readexactly(each) for each in facts.sizes]
    return DecodedPicture(
        facts.media, facts.extension, facts.width, facts.height, file, dict(zip(facts.widths, smaller, strict=True))
    )
