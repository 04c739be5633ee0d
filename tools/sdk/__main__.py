"""`python -m tools.sdk` writes the generated modules of the SDK; with `--check` it only tells whether they are as they should be."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from stoa.description import openapi_bytes
from tools.sdk.writing import written

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "src/stoa/client"


def modules() -> dict[str, str]:
    """Every generated module as it should be."""
    return {name: _formatted(name, text) for name, text in written(description()).items()}


def description() -> dict[str, Any]:
    """The OpenAPI document of the declarations, as a reader of its JSON sees it."""
    return json.loads(openapi_bytes())


def _formatted(name: str, text: str) -> str:
    place = ["--stdin-filename", f"src/stoa/client/{name}"]
    for command in (["check", "--fix-only", "--select", "I,F401", "--quiet"], ["format", "--quiet"]):
        run = subprocess.run(  # noqa: S603 - our own formatter
            [str(Path(sys.executable).parent / "ruff"), *command, *place, "-"],
            input=text,
            text=True,
            capture_output=True,
            check=False,
            cwd=ROOT,
        )
        if run.returncode:
            raise SystemExit(f"{name}: {run.stderr}")
        text = run.stdout
    return text


def main() -> None:
    stale = {name: text for name, text in modules().items() if not _same(CLIENT / name, text)}
    if "--check" in sys.argv:
        if stale:
            raise SystemExit(f"out of date: {', '.join(stale)}; run make sdk")
        return
    for name, text in stale.items():
        (CLIENT / name).write_text(text)


def _same(file: Path, text: str) -> bool:
    return file.exists() and file.read_text() == text


if __name__ == "__main__":
    main()
