"""The request that a sample shows: the example of the OpenAPI document, and the method of the SDKs that sends it."""

import json
from dataclasses import dataclass

from stoa.reference.document import Document
from stoa.reference.openapi_types import Operation
from stoa.reference.samples import sample_body, sample_path
from tools.sdk import surface


@dataclass(frozen=True)
class Request:
    """One operation with its example values."""

    operation: Operation
    document: Document
    called: surface.Operation

    @property
    def base_url(self) -> str:
        return self.document.base_url

    @property
    def url(self) -> str:
        return self.base_url + sample_path(self.operation)

    @property
    def method(self) -> str:
        return self.operation.method

    @property
    def body(self) -> tuple[str, str] | None:
        """The media type and the text."""
        return sample_body(self.operation, self.document)

    @property
    def json(self) -> str | None:
        """The body, if it is JSON."""
        return self.body[1] if self.body is not None and self.body[0].endswith(("/json", "+json")) else None

    @property
    def upload(self) -> tuple[str, str] | None:
        """The media type and the name of the file that the SDKs upload."""
        if self.body is None or self.json is not None:
            return None
        return self.body[0], "rows.csv" if self.body[0] == "text/csv" else "rows.ndjson"

    @property
    def path_values(self) -> list[str]:
        return [json.dumps(parameter.example) for parameter in self.operation.path_parameters]

    @property
    def call(self) -> list[str]:
        """The names of the SDK's resources and its method, such as `products` and `list`."""
        return [*(part.replace("-", "_") for part in self.called.chain), self.called.name]

    @property
    def is_list(self) -> bool:
        return self.called.is_list

    @property
    def has_response_body(self) -> bool:
        return any(response.content for response in self.operation.successes.values())
