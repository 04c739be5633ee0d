"""The API as a Postman collection (format 2.1): a folder for each group, with an example of every request."""

import json
from typing import Any

from stoa.reference.document import Document, Group, Operation, Parameter
from stoa.reference.samples import sample_body, sample_response

_FORMAT = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
_KEEP_TOKEN = [
    "if (pm.response.code === 200) {",
    '  pm.collectionVariables.set("token", pm.response.json().access_token);',
    "}",
]


def collection(document: Document) -> dict[str, Any]:
    """The whole collection. Requests use the variables `base_url` and `token`; the first request sets the token."""
    variables = {"base_url": document.base_url, "client_id": "", "client_secret": "", "token": ""}
    return {
        "info": {
            "name": f"{document.info.title} {document.info.version}",
            "description": document.info.summary,
            "schema": _FORMAT,
        },
        "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "{{token}}", "type": "string"}]},
        "variable": [{"key": key, "value": value, "type": "string"} for key, value in variables.items()],
        "item": [_token_request(document), *(_folder(group, document) for group in document.groups)],
    }


def _token_request(document: Document) -> dict[str, Any]:
    fields = {"grant_type": "client_credentials", "client_id": "{{client_id}}", "client_secret": "{{client_secret}}"}
    path = [part for part in document.flow.token_url.split("/") if part]
    return {
        "name": "Get a token",
        "event": [{"listen": "test", "script": {"type": "text/javascript", "exec": _KEEP_TOKEN}}],
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


def _folder(group: Group, document: Document) -> dict[str, Any]:
    return {
        "name": group.name,
        "description": group.description,
        "item": [_item(operation, document) for operation in group.operations],
    }


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
    return {"name": operation.summary, "request": request, "response": responses}


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
            {"key": each.name, "value": _text(each.example), "description": each.description}
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
