"""The parts of an OpenAPI document as types: operations with their parameters, bodies, responses and samples."""

import re
from typing import Any

import msgspec

Schema = dict[str, Any]

_PREFIX = re.compile(r"/api/v\d+/app(?=/)")
_PLACEHOLDER = re.compile(r"({\w+})")


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    where: str = msgspec.field(name="in")
    schema: Schema = {}
    description: str = ""
    required: bool = False
    example: Any = None


class Media(msgspec.Struct, frozen=True):
    schema: Schema = {}
    example: Any = None


class Response(msgspec.Struct, frozen=True):
    description: str = ""
    headers: dict[str, Any] = {}
    content: dict[str, Media] = {}
    codes: list[str] = msgspec.field(default_factory=list[str], name="x-problem-codes")


class Body(msgspec.Struct, frozen=True):
    content: dict[str, Media] = {}
    required: bool = False


class CodeSample(msgspec.Struct, frozen=True):
    lang: str
    source: str
    label: str = ""  # if its language does not name it

    @property
    def name(self) -> str:
        return self.label or self.lang


class Task(msgspec.Struct, frozen=True):
    """What callers do with an operation that does several things."""

    name: str
    summary: str
    description: str
    example: dict[str, Any]
    response: Any
    code_samples: list[CodeSample] = msgspec.field(default_factory=list[CodeSample], name="x-codeSamples")


class Operation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    operation_id: str
    summary: str = ""
    description: str = ""
    tags: list[str] = []
    security: list[dict[str, list[str]]] = []
    parameters: list[Parameter] = []
    request_body: Body | None = None
    responses: dict[str, Response] = {}
    deprecated: bool = False
    declared_idempotent: bool = msgspec.field(default=True, name="x-idempotent")
    event_scope: str = msgspec.field(default="", name="x-required-scope")  # of an event
    code_samples: list[CodeSample] = msgspec.field(default_factory=list[CodeSample], name="x-codeSamples")
    tasks: list[Task] = msgspec.field(default_factory=list[Task], name="x-tasks")
    whole: "Operation | None" = None  # of a task, the operation with all its fields
    method: str = ""
    path: str = ""

    @property
    def by_task(self) -> "list[Operation]":
        """The operation as each of its tasks uses it."""
        return [self._for(task) for task in self.tasks]

    def _for(self, task: Task) -> "Operation":
        content = self.request_body.content if self.request_body else {}
        body = Body(
            {name: msgspec.structs.replace(media, example=task.example) for name, media in content.items()},
            required=True,
        )
        responses = {
            status: msgspec.structs.replace(
                response,
                content={
                    name: msgspec.structs.replace(media, example=task.response)
                    for name, media in response.content.items()
                },
            )
            if status in self.successes
            else response
            for status, response in self.responses.items()
        }
        return msgspec.structs.replace(
            self,
            operation_id=task.name,
            summary=task.summary,
            description=task.description,
            request_body=body,
            responses=responses,
            code_samples=task.code_samples,
            tasks=[],
            whole=self,
        )

    @property
    def idempotent(self) -> bool:
        """Whether the same request again has no further effect, also without an idempotency key."""
        return self.method != "POST" and self.declared_idempotent

    @property
    def prefix(self) -> str:
        """The beginning of the path that all operations share."""
        found = _PREFIX.match(self.path)
        return found[0] if found else ""

    @property
    def segments(self) -> list[str]:
        """The rest of the path: text and placeholders in turn."""
        return _PLACEHOLDER.split(self.path.removeprefix(self.prefix))

    @property
    def path_parameters(self) -> list[Parameter]:
        return [parameter for parameter in self.parameters if parameter.where == "path"]

    @property
    def scopes(self) -> list[str]:
        return [scope for needed in self.security for scopes in needed.values() for scope in scopes]

    @property
    def successes(self) -> dict[str, Response]:
        return {status: response for status, response in self.responses.items() if status < "400"}

    @property
    def schemas(self) -> list[Schema]:
        """The schemas of its request body and of its successful responses."""
        bodies = [self.request_body.content] if self.request_body else []
        contents = [*bodies, *(response.content for response in self.successes.values())]
        return [media.schema for content in contents for media in content.values()]

    @property
    def codes(self) -> dict[str, str]:
        """Its error codes, each with its status."""
        failures = ((status, response) for status, response in self.responses.items() if status >= "400")
        return {code: status for status, response in failures for code in response.codes}


class Tag(msgspec.Struct, frozen=True):
    name: str
    description: str = ""


class Info(msgspec.Struct, frozen=True):
    title: str
    version: str
    summary: str = ""
    description: str = ""


class Variable(msgspec.Struct, frozen=True):
    default: str = ""


class Server(msgspec.Struct, frozen=True):
    url: str
    description: str = ""
    variables: dict[str, Variable] = {}


class Flow(msgspec.Struct, frozen=True, rename="camel"):
    token_url: str = ""
    scopes: dict[str, str] = {}


class Scheme(msgspec.Struct, frozen=True):
    description: str = ""
    flows: dict[str, Flow] = {}


class Components(msgspec.Struct, frozen=True, rename="camel"):
    schemas: dict[str, Schema] = {}
    security_schemes: dict[str, Scheme] = {}
