"""A client that sends requests and reads no response."""

import socket

REQUESTS = 40  # far more than the kernel buffers


def connect(port: int, *, receive_bytes: int = 0, forwarded_for: str = "") -> socket.socket:
    """A client that has sent its requests and reads nothing; its own kernel keeps at most `receive_bytes` of them."""
    proxied = f"x-forwarded-for: {forwarded_for}\r\n" if forwarded_for else ""
    client = socket.socket()
    if receive_bytes:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    client.connect(("127.0.0.1", port))
    client.sendall(f"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n{proxied}\r\n".encode() * REQUESTS)
    return client
