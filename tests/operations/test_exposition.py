"""The metrics of several processes are read while a process starts or dies."""

from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.mmap_dict import MmapedDict, mmap_key

from stoa.operations.exposition import WorkerCollector


def write(file: Path, value: float) -> None:
    key = mmap_key("stoa_things", "stoa_things_total", [], [], "Things")
    with closing(MmapedDict(str(file))) as values:
        values.write_value(key, value, 0.0)  # pyright: ignore[reportUnknownMemberType]


def scraped(registry: CollectorRegistry) -> list[str]:
    return [line for line in generate_latest(registry).decode().splitlines() if line.startswith("stoa_things_total")]


def test_a_process_that_has_just_created_its_file_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    registry = CollectorRegistry()
    WorkerCollector(registry)
    write(tmp_path / "counter_1.db", 2)
    (tmp_path / "counter_2.db").touch()
    assert scraped(registry) == ["stoa_things_total 2.0"]
    write(tmp_path / "counter_2.db", 3)
    assert scraped(registry) == ["stoa_things_total 5.0"]


def test_a_file_that_disappears_while_the_files_are_listed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    registry = CollectorRegistry()
    WorkerCollector(registry)
    write(tmp_path / "counter_1.db", 2)
    (tmp_path / "gauge_livesum_2.db").symlink_to(tmp_path / "gone")  # listed, but not there
    assert scraped(registry) == ["stoa_things_total 2.0"]
