"""The API as a Postman collection (format 2.1): a folder for each group, with an example of every request.

The requests can be sent one after another: each names what an earlier one created, and those that delete come last.
"""

import json
from typing import Any

from stoa.reference.document import Document, Group
from stoa.reference.openapi_types import Operation, Parameter
from stoa.reference.samples import sample_body, sample_response

_FORMAT = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
_KEEP_TOKEN = [
    "if (pm.response.code === 200) {",
    '  pm.collectionVariables.set("token", pm.response.json().access_token);',
    "}",
]
_KEEP_ID = [
    "if (pm.response.code < 300) {{",
    "  const {{ data }} = pm.response.json();",
    '  pm.collectionVariables.set("{name}", ("{part}" in data ? data["{part}"][0] : data).id);',
    "}}",
]
_EXPECT = 'pm.test("The status is {statuses}", () => pm.expect(pm.response.code).to.be.oneOf([{statuses}]));'


def collection(document: Document) -> dict[str, Any]:
    """The whole collection. Requests use the variables `base_url` and `token`; the first request sets the token."""
    variables = {"base_url": document.base_url, "client_id": "", "client_secret": "", "token": "", **_ids(document)}
    # The example of an order names the customer whom another example creates.
    groups = sorted(document.groups, key=lambda group: group.name == "Orders")
    removing = [each for group in reversed(groups) for each in reversed(group.operations) if _removes(each)]
    return {
        "info": {
            "name": f"{document.info.title} {document.info.version}",
            "description": document.info.summary,
            "schema": _FORMAT,
        },
        "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "{{token}}", "type": "string"}]},
        "variable": [{"key": key, "value": value, "type": "string"} for key, value in variables.items()],
        "item": [
            _token_request(document),
            *(_folder(each.name, each.description, _kept(each), document) for each in groups),
            _folder("Delete", "Deletes what the other requests created.", removing, document),
        ],
    }


def _removes(operation: Operation) -> bool:
    return operation.method == "DELETE"


def _kept(group: Group) -> list[Operation]:
    return [each for each in group.operations if not _removes(each)]


def _ids(document: Document) -> dict[str, str]:
    """A variable for each path parameter, with its example until a request sets it."""
    parameters = [each for operation in document.operations for each in operation.path_parameters]
    return {each.name: _text(each.example) for each in parameters}


def _made(operation: Operation, document: Document) -> str | None:
    """The path parameter that names what this request creates: `/products` creates a `product_id`."""
    if operation.method != "POST":
        return None
    below = f"{operation.path}/{{"
    return next(
        (each.path.removeprefix(below)[:-1] for each in document.operations if each.path.startswith(below)), None
    )


def _token_request(document: Document) -> dict[str, Any]:
    fields = {"grant_type": "client_credentials", "client_id": "{{client_id}}", "client_secret": "{{client_secret}}"}
    path = [part for part in document.flow.token_url.split("/") if part]
    return {
        "name": "Get a token",
        "event": [_script([_EXPECT.format(statuses=200), *_KEEP_TOKEN])],
        "request": {
            "auth": {"type": "noauth"},
            "method": "POST",
            "description": "Set `client_id` and `client_secret` first. The response sets `token` for all other requests.",
            "header": [],
            "url": {"raw": "/".join(["{{base_url}}", *path]), "host": ["{{base_url}}"], "path": path},
            "body": {
                "mode": "urlencoded",
                "urlencoded": [{"key": key, "value": value, "type": "text"} for key, value in fields.items()],
            },
        },
        "response": [],
    }


def _script(lines: list[str]) -> dict[str, Any]:
    """A script that runs after the response, which sets variables and checks the status."""
    return {"listen": "test", "script": {"type": "text/javascript", "exec": lines}}


def _folder(name: str, description: str, operations: list[Operation], document: Document) -> dict[str, Any]:
    return {"name": name, "description": description, "item": [_item(each, document) for each in operations]}


def _item(operation: Operation, document: Document) -> dict[str, Any]:
    request = _request(operation, document)
    sample = sample_response(operation, document)
    responses: list[dict[str, Any]] = []
    if sample is not None:
        status, text = sample
        header = [{"key": "Content-Type", "value": "application/json"}] if text else []
        responses.append(
            {
                "name": f"{status} {operation.summary}",
                "originalRequest": request,
                "code": int(status),
                "header": header,
                "body": text,
            }
        )
    lines = [_EXPECT.format(statuses=", ".join(operation.successes))]
    if name := _made(operation, document):
        # A line item is a part of the order in the response.
        lines += [line.format(name=name, part=f"{name.removesuffix('_id')}s") for line in _KEEP_ID]
    return {"name": operation.summary, "event": [_script(lines)], "request": request, "response": responses}


def _request(operation: Operation, document: Document) -> dict[str, Any]:
    sent = sample_body(operation, document)
    headers = [_field(each) for each in operation.parameters if each.where == "header"]
    request: dict[str, Any] = {
        "method": operation.method,
        "description": operation.description,
        "header": headers if sent is None else [{"key": "Content-Type", "value": sent[0]}, *headers],
        "url": _url(operation),
    }
    if sent is not None:
        language = "json" if sent[0].endswith(("/json", "+json")) else "text"
        request["body"] = {"mode": "raw", "raw": sent[1], "options": {"raw": {"language": language}}}
    return request


def _url(operation: Operation) -> dict[str, Any]:
    path = [f":{part[1:-1]}" if part.startswith("{") else part for part in operation.path.split("/") if part]
    query = [_field(each) for each in operation.parameters if each.where == "query"]
    return {
        "raw": "/".join(["{{base_url}}", *path]),
        "host": ["{{base_url}}"],
        "path": path,
        "query": query,
        "variable": [
            {"key": each.name, "value": f"{{{{{each.name}}}}}", "description": each.description}
            for each in operation.path_parameters
        ],
    }


def _field(parameter: Parameter) -> dict[str, Any]:
    """A query parameter or header, which is off unless it is required."""
    return {
        "key": parameter.name,
        "value": _text(parameter.example),
        "description": parameter.description,
        "disabled": not parameter.required,
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)
