"""The sample programs of all operations exist, and are valid PHP; `tests/client` checks the Python, `tests/typescript` compiles the others."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tools.sdk.samples.writing import LANGUAGES

from stoa.reference import page
from stoa.reference.openapi_types import Operation
from stoa.reference.samples import sample_body, sample_path
from tests.generated.node import NODE

DOCUMENT = page.document()


def samples_in(name: str) -> list[str]:
    """The samples of the description in one language."""
    return [sample.source for each in DOCUMENT.operations for sample in each.code_samples if sample.name == name]


def test_every_operation_has_a_sample_in_each_language() -> None:
    names = [kind.get("label", kind["lang"]) for kind, _ in LANGUAGES]
    assert names == ["curl", "Python", "TypeScript", "PHP"]
    assert [each.operation_id for each in DOCUMENT.operations if [one.name for one in each.code_samples] != names] == []


@pytest.mark.skipif(shutil.which("php") is None, reason="PHP is not installed")
def test_the_php_samples_have_no_syntax_errors(tmp_path: Path) -> None:
    bodies = [source.removeprefix("<?php\n") for source in samples_in("PHP")]
    program = tmp_path / "samples.php"
    program.write_text("\n".join(["<?php", *(f"function sample{n}() {{\n{body}\n}}" for n, body in enumerate(bodies))]))
    found = subprocess.run(["php", "-l", program], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


def request(operation: Operation, base: str) -> dict[str, Any]:
    """The request of a sample, as `page.js` reads it from the page."""
    sent = sample_body(operation, DOCUMENT)
    return {
        "method": operation.method,
        "base": base,
        "url": base + sample_path(operation),
        "headers": [] if sent is None else [["Content-Type", sent[0]]],
        "body": None if sent is None else sent[1],
        "media": None if sent is None else sent[0],
        "path": [str(parameter.example) for parameter in operation.path_parameters],
        "query": [],
    }


def with_values(*cases: tuple[str, str, dict[str, Any], dict[str, Any]]) -> list[str]:
    """What `withValues` of the script returns for each language, sample, declared request and other request."""
    script = (Path(page.__file__).parent / "assets/code.js").read_text()
    calls = f"console.log(JSON.stringify({json.dumps(cases)}.map((each) => withValues(...each))))"
    found = subprocess.run([NODE, "-"], input=f"{script}\n{calls}", capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def test_the_script_puts_other_values_into_every_sample() -> None:
    base = "https://api.example.com/stores/my-shop"
    cases = [
        (sample.name, sample.source, request(each, DOCUMENT.base_url), request(each, base))
        for each in DOCUMENT.operations
        for sample in each.code_samples
    ]
    expected = [source.replace(DOCUMENT.base_url, base) for _, source, _, _ in cases]
    assert with_values(*cases) == expected


def test_the_script_puts_path_query_headers_and_body_into_a_sample() -> None:
    (update,) = [each for each in DOCUMENT.operations if each.operation_id == "update_product"]
    declared = request(update, DOCUMENT.base_url)
    url = f"{DOCUMENT.base_url}/api/v3/app/products/77?fields=id"
    headers = [["Content-Type", "application/json"], ["If-Match", '"3"']]
    other = {"path": ["77"], "url": url, "query": [["fields", "id", "array"]], "headers": headers}
    changed = {**declared, **other, "body": '{"name": "A$&B"}'}
    cases = [(sample.name, sample.source, declared, changed) for sample in update.code_samples]
    curl, python, typescript, php = with_values(*cases)
    assert curl.splitlines()[0] == f'curl -X PATCH "{url}" \\'
    assert curl.splitlines()[3:] == ["  -H 'If-Match: \"3\"' \\", """  --data '{"name": "A$&B"}'"""]
    assert python.endswith(r"""print(client.products.update(77, name="A$&B", fields="id", if_match="\"3\""))""")
    assert r"""client.products.update(77, { name: "A$&B" }, { fields: "id", ifMatch: "\"3\"" });""" in typescript
    assert f"curl_init('{url}')" in php
    assert """<<<'BODY'\n{"name": "A$&B"}\nBODY;""" in php
    assert """        'If-Match: "3"',\n    ],""" in php


def test_the_script_removes_an_empty_body_from_a_sample() -> None:
    (create,) = [each for each in DOCUMENT.operations if each.operation_id == "create_product"]
    declared = request(create, DOCUMENT.base_url)
    changed: dict[str, Any] = {**declared, "body": None, "headers": []}
    curl, python, _, php = with_values(
        *((sample.name, sample.source, declared, changed) for sample in create.code_samples)
    )
    assert curl.startswith("curl -X POST ")
    assert "--data" not in curl
    assert python.endswith("print(client.products.create())")
    assert "$body" not in php
