"""The list of slow files is true: its names exist, and no other file starts a service, a database server or a browser."""

import re

from tests.conftest import HERE, ONE_SERVICE, SLOW, is_slow

LONG = "pytest.mark." + "long"  # not a marker of this file
STARTS = re.compile(
    r"(with|with \(|enter_context\(|closing\()\s*Service\(|(prepared_demo|EmbeddedPostgres|copy_migrated|open_chromium)\("
)


def test_every_slow_name_exists() -> None:
    assert [name for name in (*SLOW, *ONE_SERVICE) if not (HERE / name).exists()] == []
    assert list(SLOW) == sorted(SLOW)


def test_a_folder_with_one_service_is_slow() -> None:
    assert [name for name in ONE_SERVICE if name not in SLOW] == []


def test_a_file_that_starts_a_service_a_server_or_a_browser_is_slow() -> None:
    starting = [file for file in HERE.rglob("test_*.py") if STARTS.search(file.read_text(encoding="utf-8"))]
    assert len(starting) > 20, "the expression no longer finds what starts a service"
    assert [file.relative_to(HERE).as_posix() for file in starting if not is_slow(file)] == []


def test_a_long_test_is_in_a_slow_file() -> None:
    long = [file for file in HERE.rglob("test_*.py") if LONG in file.read_text(encoding="utf-8")]
    assert len(long) > 20, "no test has the marker"
    assert [file.relative_to(HERE).as_posix() for file in long if not is_slow(file)] == []
