"""`python -m tools.sdk` writes the generated modules of both SDKs, the code samples, and the schemas of the Airbyte manifest;
`--check` only reports whether they are up to date."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from stoa.description import openapi_bytes
from tools.sdk.airbyte import manifest
from tools.sdk.samples.guides import generate as generate_guide_samples
from tools.sdk.samples.writing import generate as generate_samples
from tools.sdk.typescript.writing import generate as generate_typescript
from tools.sdk.writing import generate

ROOT = Path(__file__).parents[2]
CLIENT, TYPESCRIPT = ROOT / "sdk/python/src/stoa_client", ROOT / "sdk/typescript/src/generated"
AIRBYTE = ROOT / "connectors/airbyte/manifest.yaml"
SAMPLES = ROOT / "src/stoa/openapi_examples/code_samples.json"
GUIDE_SAMPLES = ROOT / "src/stoa/guides/samples.json"


def modules() -> dict[str, str]:
    """The expected text of every generated module of the Python SDK."""
    return {name: _formatted(name, text) for name, text in generate(description()).items()}


def typescript_modules() -> dict[str, str]:
    """The expected text of every generated module of the TypeScript SDK."""
    return generate_typescript(description())


def description() -> dict[str, Any]:
    """The OpenAPI document, decoded from its JSON."""
    return json.loads(openapi_bytes())


def _formatted(name: str, text: str) -> str:
    if not name.endswith(".py"):
        return text
    options = ["--stdin-filename", f"sdk/python/src/stoa_client/{name}"]
    for command in (["check", "--fix-only", "--select", "I,F401", "--quiet"], ["format", "--quiet"]):
        run = subprocess.run(  # noqa: S603 - a fixed command
            [str(Path(sys.executable).parent / "ruff"), *command, *options, "-"],
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
    expected = {CLIENT / name: text for name, text in modules().items()}
    expected |= {TYPESCRIPT / name: text for name, text in typescript_modules().items()}
    expected[SAMPLES] = generate_samples(description())
    expected[AIRBYTE] = manifest(AIRBYTE.read_text(), description())
    expected[GUIDE_SAMPLES] = generate_guide_samples(description())
    stale = {file: text for file, text in expected.items() if not _same(file, text)}
    if "--check" in sys.argv:
        if stale:
            raise SystemExit(f"{', '.join(str(file.relative_to(ROOT)) for file in stale)} out of date: run make sdk")
        return
    for file, text in stale.items():
        file.write_text(text)


def _same(file: Path, text: str) -> bool:
    return file.exists() and file.read_text() == text


if __name__ == "__main__":
    main()
