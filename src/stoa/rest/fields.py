"""Field types that several resources share."""

from typing import Annotated, Any

from msgspec import Meta

from stoa.rest.checks import Time, worded

_NOT_BLANK = worded("must contain a non-space character", pattern=r"^[^\x00]*[^\s\x00\x1c-\x1f\x85][^\x00]*$")

Short = Annotated[str, Meta(max_length=255)]
Name = Annotated[str, Meta(min_length=1, max_length=255), _NOT_BLANK]
Tag = Annotated[str, Meta(min_length=1, max_length=64), _NOT_BLANK]
ExternalId = Annotated[str, Meta(min_length=1, max_length=255)]
Url = Annotated[
    str,
    Meta(min_length=1, max_length=2048, pattern=r"^https?://[^\s\u0000-\u001f\u007f-\u009f\ufeff]+$"),
    worded("must be a URL that starts with http:// or https://"),
]
# The one rule for metadata keys of all resources.
MetadataKey = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_.-]{1,64}$",
        description="A key of 1 to 64 letters, digits, dots, hyphens and underscores. Case matters.",
    ),
    worded("must be a key of 1 to 64 letters, digits, dots, hyphens and underscores"),
]
MetadataValue = Annotated[str, Meta(max_length=1000)] | int | float | bool
Metadata = Annotated[dict[MetadataKey, MetadataValue], Meta(max_length=100)]
MetadataChanges = Annotated[dict[MetadataKey, MetadataValue | None], Meta(max_length=100)]
CreatedAt = Annotated[Time, Meta(description="The time of creation, in UTC.")]
UpdatedAt = Annotated[Time, Meta(description="The time of the last change, in UTC.")]
Version = Annotated[
    int,
    Meta(
        description="Increases with each change, from 1. Send it as `If-Match` to change only the version that you read."
    ),
]
ShownMetadata = Annotated[
    dict[str, Any], Meta(description="Up to 100 values of your own, by key. All apps of the store see them.")
]
