"""The log of a program that uses the SDK contains no personal data of customers."""

import logging

import httpx
import pytest

from stoa_client import AsyncClient, Client


def answer(_request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json={"data": [], "meta": {"total": 0}})


async def test_httpx_logs_no_query_of_a_call(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    transport = httpx.MockTransport(answer)
    with httpx.Client(transport=transport) as http:
        Client("http://localhost", token="t", http=http).customers.list(email="maya@example.com").page()
        http.get("http://localhost/other?q=kept")
    async with httpx.AsyncClient(transport=transport) as http:
        await AsyncClient("http://localhost", token="t", http=http).customers.list(q="Maya Ortiz").page()
    lines = [record.getMessage() for record in caplog.records if record.name == "httpx"]
    assert lines == [
        'HTTP Request: GET http://localhost/api/v3/app/customers "HTTP/1.1 200 OK"',
        'HTTP Request: GET http://localhost/other?q=kept "HTTP/1.1 200 OK"',
        'HTTP Request: GET http://localhost/api/v3/app/customers "HTTP/1.1 200 OK"',
    ]
    assert "aya" not in caplog.text
