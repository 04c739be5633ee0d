"""The decoder: a process that dies, hangs or needs too much ends one picture, and the next one starts another process."""

import asyncio
import io
import os
import re
import signal
from pathlib import Path

import pytest

from stoa.media import decoder as child
from stoa.media.contract import DECODE_CPU_S, DecoderBusy, PictureRefused
from stoa.media.decoding import Decoder
from tests.pictures.samples import photo, picture


def processes() -> set[int]:
    """The decoders that this process has started."""
    with open(f"/proc/self/task/{os.getpid()}/children") as file:  # noqa: PTH123
        return {int(each) for each in file.read().split() if b"stoa.media.decoder" in _command(int(each))}


def _command(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""


async def test_a_decoder_that_dies_is_replaced() -> None:
    before, decoder = processes(), Decoder()
    assert (await decoder.decode(picture())).width == 300
    [pid] = processes() - before
    os.kill(pid, signal.SIGSTOP)
    waiting = asyncio.create_task(decoder.decode(photo(400)))
    await asyncio.sleep(0)
    os.kill(pid, signal.SIGXCPU)
    os.kill(pid, signal.SIGCONT)
    with pytest.raises(PictureRefused, match="takes too long to decode"):
        await waiting
    assert (await decoder.decode(picture())).width == 300
    [pid] = processes() - before
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(PictureRefused, match="cannot be decoded"):
        await decoder.decode(photo(400))
    assert (await decoder.decode(picture())).width == 300
    await decoder.close()
    assert processes() == before


async def test_the_kernel_limits_a_decoder() -> None:
    before, decoder = processes(), Decoder()
    await decoder.decode(picture())
    [pid] = processes() - before
    limits = dict(re.findall(r"^Max ([a-z ]+?) {2,}(\d+)", Path(f"/proc/{pid}/limits").read_text(), re.MULTILINE))
    assert (limits["address space"], limits["file size"], limits["core file size"]) == (str(1 << 30), "0", "0")
    assert 0 < int(limits["cpu time"]) <= 2 * (DECODE_CPU_S + 1), "for the picture, and for the start of the process"
    assert os.getpriority(os.PRIO_PROCESS, pid) >= 10
    assert Path(f"/proc/{pid}/environ").read_bytes() == b"", "it knows no secret"
    await decoder.close()


def test_a_picture_that_needs_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def need_more(_: bytes) -> child.Made:
        raise MemoryError

    monkeypatch.setattr(child, "normalized", need_more)
    reply = io.BytesIO()
    child.answer(reply, b"", encoded=False)
    assert reply.getvalue().endswith(b'{"refused": "needs too much memory"}')


async def test_a_decoder_that_hangs_is_killed() -> None:
    before, decoder = processes(), Decoder(seconds=1.0)
    while not processes() - before:  # the first picture includes the start of the process, which may take longer
        await asyncio.gather(decoder.decode(picture()), return_exceptions=True)
    [pid] = processes() - before
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(DecoderBusy):
        await decoder.decode(picture())
    assert processes() == before
    await decoder.close()


async def test_a_busy_decoder_says_so() -> None:
    before, decoder = processes(), Decoder(seconds=60, wait_s=0.2)
    await decoder.decode(picture())
    [pid] = processes() - before
    os.kill(pid, signal.SIGSTOP)
    first = asyncio.create_task(decoder.decode(picture()))
    await asyncio.sleep(0)
    with pytest.raises(DecoderBusy):
        await decoder.decode(picture())
    os.kill(pid, signal.SIGCONT)
    assert (await first).width == 300
    await decoder.close()


async def test_a_cancelled_picture_does_not_confuse_the_next() -> None:
    decoder = Decoder()
    await decoder.decode(picture())
    task = asyncio.create_task(decoder.decode(photo(1500)))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await decoder.decode(picture(120, 80))).width == 120
    await decoder.close()
