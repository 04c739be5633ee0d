"""The sample request of an operation without an SDK: as a curl command, and in PHP."""

import re

from stoa.reference.samples import CONTINUED
from tools.sdk.samples.request import Request


def curl(request: Request) -> str:
    implied = "GET" if request.body is None else "POST"
    verb = "" if request.method == implied else f"-X {request.method} "
    lines = [f'curl {verb}"{request.url}"', '-H "Authorization: Bearer $STOA_TOKEN"']
    if request.body is not None:
        media, text = request.body
        quoted = text.replace("'", "'\\''")
        lines += [f'-H "Content-Type: {media}"', f"--data '{quoted}'"]
    return CONTINUED.join(lines)


def php(request: Request) -> str:
    """With the curl extension, which nearly every PHP has."""
    lines = ["<?php"]
    if request.body is not None:  # a nowdoc takes the text as it is
        lines.append(f"$body = <<<'BODY'\n{request.body[1]}\nBODY;")
    lines += [
        f"$request = curl_init({_quoted(request.url)});",
        "curl_setopt_array($request, [",
        "    CURLOPT_RETURNTRANSFER => true,",
    ]
    if request.method != "GET":
        lines.append(f"    CURLOPT_CUSTOMREQUEST => '{request.method}',")
    lines += ["    CURLOPT_HTTPHEADER => [", "        'Authorization: Bearer ' . getenv('STOA_TOKEN'),"]
    if request.body is not None:
        lines.append(f"        {_quoted(f'Content-Type: {request.body[0]}')},")
    lines.append("    ],")
    if request.body is not None:
        lines.append("    CURLOPT_POSTFIELDS => $body,")
    lines += [
        "]);",
        "$response = curl_exec($request);",
        "echo curl_getinfo($request, CURLINFO_RESPONSE_CODE), ' ', $response, PHP_EOL;",
    ]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return "'" + re.sub(r"[\\']", r"\\\g<0>", text) + "'"
