"""A client that sends requests and reads no response."""

import socket

UNREAD = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 40  # far more than the kernel buffers


def connect(port: int, *, receive_bytes: int = 0) -> socket.socket:
    """A client that has sent its requests and reads nothing; its own kernel keeps at most `receive_bytes` of them."""
    client = socket.socket()
    if receive_bytes:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    client.connect(("127.0.0.1", port))
    client.sendall(UNREAD)
    return client
