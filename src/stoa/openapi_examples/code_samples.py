"""The code samples of each operation, which `make sdk` generates together with the SDKs."""

from importlib.resources import files

import msgspec

CodeSamples = list[dict[str, str]]
_FILE = files("stoa.openapi_examples") / "code_samples.json"


def code_samples() -> dict[str, CodeSamples]:
    """By operationId, in the form of `x-codeSamples`; an operation that was just declared has none."""
    return msgspec.json.decode(_FILE.read_bytes(), type=dict[str, CodeSamples])
