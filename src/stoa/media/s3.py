"""A bucket of an S3-compatible service: the few requests that Stoa needs, signed with AWS Signature Version 4."""

import hashlib
import hmac
import re
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from html import unescape
from urllib.parse import parse_qs, quote, unquote, urlsplit

import httpx

from stoa.media.contract import MEDIA_TYPES

TIMEOUT_S = 20.0
_KEY = re.compile(r"<Key>([^<]*)</Key>")
_NEXT = re.compile(r"<NextContinuationToken>([^<]*)</NextContinuationToken>")
_RETRIES = 2


class Bucket:
    """Files below a prefix of one bucket, which is named in the path."""

    def __init__(self, url: str, bucket: str, prefix: str, region: str, credentials: tuple[str, str]) -> None:
        self._host = urlsplit(url).netloc
        self._bucket = bucket
        self._prefix = prefix
        self._region = region
        self._key_id, self._secret = credentials
        self._client = httpx.AsyncClient(
            base_url=url, timeout=TIMEOUT_S, transport=httpx.AsyncHTTPTransport(retries=_RETRIES), trust_env=False
        )

    @classmethod
    def of(cls, url: str) -> "Bucket":
        """Read a URL such as https://KEY:SECRET@s3.example.com/bucket/prefix?region=eu-central-1."""
        parts = urlsplit(url)
        bucket, _, prefix = parts.path.strip("/").partition("/")
        if parts.scheme not in ("https", "http") or not parts.hostname or not bucket:
            raise ValueError("must be file:///folder, or https://KEY:SECRET@host/bucket with an optional ?region=")
        if not parts.username or not parts.password:
            raise ValueError("must contain the access key and its secret: https://KEY:SECRET@host/bucket")
        region = parse_qs(parts.query).get("region", ["us-east-1"])[0]
        host = parts.netloc.rpartition("@")[2]
        credentials = (unquote(parts.username), unquote(parts.password))
        return cls(f"{parts.scheme}://{host}", bucket, f"{prefix}/" if prefix else "", region, credentials)

    async def put(self, key: str, data: bytes) -> None:
        media = MEDIA_TYPES[key.rpartition(".")[2]]
        _expect(await self._request("PUT", key, data=data, content_type=media), 200)

    async def get(self, key: str) -> bytes | None:
        response = await self._request("GET", key)
        if response.status_code == 404:
            return None
        _expect(response, 200)
        return response.content

    async def delete(self, key: str) -> None:
        _expect(await self._request("DELETE", key), 204, 200, 404)

    async def list_keys(self, prefix: str = "") -> AsyncGenerator[str]:
        token = ""
        while True:
            query = {
                "list-type": "2",
                "prefix": self._prefix + prefix,
                **({"continuation-token": token} if token else {}),
            }
            response = await self._request("GET", None, query=query)
            _expect(response, 200)
            for key in _KEY.findall(response.text):
                yield unescape(key).removeprefix(self._prefix)
            following = _NEXT.search(response.text)
            if following is None:
                return
            token = unescape(following[1])

    async def delete_all(self, prefix: str) -> None:
        for key in [key async for key in self.list_keys(prefix)]:
            await self.delete(key)

    async def check(self) -> None:
        query = {"list-type": "2", "prefix": f"{self._prefix}0/", "max-keys": "1"}
        _expect(await self._request("GET", None, query=query), 200)

    async def close(self) -> None:
        await self._client.aclose()

    async def _request(
        self,
        method: str,
        key: str | None,
        *,
        query: dict[str, str] | None = None,
        data: bytes = b"",
        content_type: str = "",
    ) -> httpx.Response:
        path = f"/{self._bucket}" + (f"/{self._prefix}{key}" if key is not None else "/")
        path, parameters = (
            quote(path),
            "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in sorted((query or {}).items())),
        )
        headers = self.signed(method, path, parameters, data, datetime.now(UTC))
        if content_type:
            headers["content-type"] = content_type
        try:
            return await self._client.request(
                method, f"{path}?{parameters}" if parameters else path, content=data, headers=headers
            )
        except httpx.HTTPError as error:
            raise ConnectionError(f"the storage of pictures cannot be reached: {type(error).__name__}") from error

    def signed(self, method: str, path: str, parameters: str, data: bytes, moment: datetime) -> dict[str, str]:
        """The headers that sign a request."""
        stamp, day = f"{moment:%Y%m%dT%H%M%SZ}", f"{moment:%Y%m%d}"
        digest = hashlib.sha256(data).hexdigest()
        signed = {"host": self._host, "x-amz-content-sha256": digest, "x-amz-date": stamp}
        names = ";".join(signed)
        lines = "".join(f"{name}:{value}\n" for name, value in signed.items())
        request = f"{method}\n{path}\n{parameters}\n{lines}\n{names}\n{digest}"
        scope = f"{day}/{self._region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = f"AWS4{self._secret}".encode()
        for part in (day, self._region, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        credential = f"Credential={self._key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
        return {**signed, "authorization": f"AWS4-HMAC-SHA256 {credential}"}


def _expect(response: httpx.Response, *statuses: int) -> None:
    if response.status_code not in statuses:
        code = re.search(r"<Code>(\w{1,64})</Code>", response.text)
        raise ConnectionError(
            f"the storage of pictures answered {response.status_code}" + (f" {code[1]}" if code else "")
        )
