"""The page of one operation as data: parameters, body, responses, errors and samples."""

from collections.abc import Iterable

import msgspec

from stoa.reference.document import Document, Group, reference, usual_body
from stoa.reference.fields import ParameterGroup, Row, parameter_groups, schema_rows
from stoa.reference.openapi_types import Operation
from stoa.reference.samples import sample_body, sample_response
from stoa.reference.schema_text import Words, kind
from stoa.rest.openapi.envelopes import SPARSE


class BodyView(msgspec.Struct, frozen=True):
    required: bool
    media: list[str]
    type: Words
    rows: list[Row]


class ResponseView(msgspec.Struct, frozen=True):
    status: str
    description: str
    headers: list[str]  # without those of every response
    rows: list[Row]


class SchemaView(msgspec.Struct, frozen=True):
    name: str
    description: str
    rows: list[Row]
    fields_of: str = ""  # the schema that has the same fields, which are not repeated


class OperationView(msgspec.Struct, frozen=True, kw_only=True):
    operation: Operation
    group: Group
    path: list[ParameterGroup]
    body: BodyView | None
    parameters: list[ParameterGroup]
    responses: list[ResponseView]
    errors: dict[str, str]  # statuses by code
    usual_errors: list[str]
    body_sample: str | None
    response_sample: tuple[str, str] | None  # status and body
    schemas: list[SchemaView]


def operation_view(operation: Operation, group: Group, document: Document) -> OperationView:
    groups = parameter_groups(operation.parameters, document)
    sent = sample_body(operation, document)
    return OperationView(
        operation=operation,
        group=group,
        # The path and the body say what is done; the other parameters say how.
        path=[each for each in groups if each.where == "path"],
        body=_body(operation, document),
        parameters=[each for each in groups if each.where != "path"],
        responses=[
            ResponseView(
                status,
                response.description,
                [name for name in response.headers if name not in document.common_headers],
                [row for media in response.content.values() for row in schema_rows(media.schema, document)],
            )
            for status, response in operation.successes.items()
        ],
        errors={code: status for code, status in operation.codes.items() if code not in document.usual_codes},
        usual_errors=[code for code in operation.codes if code in document.usual_codes],
        body_sample=sent[1] if sent is not None else None,
        response_sample=sample_response(operation, document),
        schemas=schema_views(document.named_by(operation.schemas), document),
    )


def schema_views(names: Iterable[str], document: Document) -> list[SchemaView]:
    return [_schema_view(name, document) for name in names]


def _schema_view(name: str, document: Document) -> SchemaView:
    schema = document.components.schemas[name]
    text, whole = schema.get("description", ""), name.removeprefix(SPARSE)
    if whole != name and whole in document.components.schemas:
        return SchemaView(name, text, [], whole)
    return SchemaView(name, text, list(schema_rows(schema, document)))


def _body(operation: Operation, document: Document) -> BodyView | None:
    body = operation.request_body
    if body is None:
        return None
    schema = next(iter(body.content.values())).schema
    rows = list(schema_rows(document.resolved(usual_body(schema)), document))
    if operation.whole is not None:  # a task shows the fields that it uses
        used = next(iter(body.content.values())).example
        return BodyView(
            body.required, list(body.content), [], [row for row in rows if row.name.partition(".")[0] in used]
        )
    return BodyView(body.required, list(body.content), kind(schema) if reference(usual_body(schema)) else [], rows)
