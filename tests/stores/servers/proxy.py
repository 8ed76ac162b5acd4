"""An HTTP proxy before a store: it counts requests, and delays, refuses or cuts them as a test asks it to."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

SLOW_DOWN = (
    b"<?xml version='1.0' encoding='UTF-8'?><Error><Code>SlowDown</Code>"
    b"<Message>Please reduce your request rate.</Message></Error>"
)
DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
PASS, BUSY, FORBIDDEN, CUT, HALF = "pass", "503", "403", "cut", "half"


@dataclass(frozen=True)
class Request:
    """What a client asks: `ours` is what does not come from Spark's JVM."""

    verb: str
    target: str
    ours: bool


@dataclass
class Proxy:
    """What it does with each request, and what it has seen since `seen` was emptied."""

    port: int = 0
    delay: float = 0.0
    fate: Callable[[Request], str] = lambda request: PASS
    seen: list[Request] = field(default_factory=list)
    bytes_sent: int = 0  # of bodies that went to clients
    most_at_once: int = 0  # requests of ours that were delayed at the same time
    _waiting: list[Request] = field(default_factory=list)  # the ones of ours that are delayed now
    _upstream: int = 0

    def ours(self) -> list[Request]:
        return [request for request in self.seen if request.ours]

    def reset(self) -> None:
        self.delay, self.fate, self.bytes_sent = 0.0, lambda request: PASS, 0
        self.most_at_once = 0
        self._waiting = []  # a client of an earlier test may have given up on a request that still waits here
        self.seen.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._one(reader, writer):
                pass
        writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the client may ask again."""
        head = await reader.readuntil(b"\r\n\r\n")
        first, _, rest = head.decode("latin-1").partition("\r\n")
        verb, target, _ = first.split(" ")
        pairs = (line.partition(":") for line in rest.split("\r\n"))
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        agent = headers.get("user-agent", "").lower()
        request = Request(verb, target, "java" not in agent and "hadoop" not in agent)
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await _body(reader, headers)
        self.seen.append(request)
        fate = self.fate(request)
        if self.delay:
            await self._delayed(request)
        if fate == CUT:
            return False
        if fate in (BUSY, FORBIDDEN):
            said, status = (SLOW_DOWN, "503 Slow Down") if fate == BUSY else (DENIED, "403 Forbidden")
            content = b"" if request.verb == "HEAD" else said
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
            await writer.drain()
            return True
        lines = head.decode("latin-1").split("\r\n")
        lines = [line for line in lines if not line.lower().startswith(("expect:", "connection:"))]
        lines.insert(1, "Connection: close")
        return await self._forward("\r\n".join(lines).encode("latin-1") + body, request, fate, writer)

    async def _delayed(self, request: Request) -> None:
        """Counted here alone, where no client can have its answer yet: a slot of its own is surely taken."""
        waiting = self._waiting if request.ours else []
        waiting.append(request)
        self.most_at_once = max(self.most_at_once, len(self._waiting))
        await asyncio.sleep(self.delay)
        waiting.remove(request)

    async def _forward(self, message: bytes, request: Request, fate: str, writer: asyncio.StreamWriter) -> bool:
        upstream, sink = await asyncio.open_connection("127.0.0.1", self._upstream)
        try:
            sink.write(message)
            await sink.drain()
            answer = await upstream.readuntil(b"\r\n\r\n")
            content = b"" if request.verb == "HEAD" else await upstream.read()
        finally:
            sink.close()
        lines = [line for line in answer.decode("latin-1").split("\r\n") if not line.lower().startswith("connection:")]
        if request.verb != "HEAD" and not any(line.lower().startswith("content-length:") for line in lines):
            lines.insert(1, f"Content-Length: {len(content)}")
        content = content[: len(content) // 2] if fate == HALF else content
        self.bytes_sent += len(content)
        writer.write("\r\n".join(lines).encode("latin-1") + content)
        await writer.drain()
        return fate != HALF


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    """The body as it came; one in chunks stays in chunks."""
    if "chunked" not in headers.get("transfer-encoding", ""):
        return await reader.readexactly(int(headers.get("content-length", "0")))
    parts = []
    while True:
        line = await reader.readline()
        size = int(line.split(b";")[0], 16)
        parts += [line, await reader.readexactly(size + 2)]
        if not size:
            return b"".join(parts)


@contextlib.contextmanager
def serving(upstream: int) -> Iterator[Proxy]:
    """A proxy before this port of 127.0.0.1, on another one, until the block ends."""
    proxy, loop = Proxy(_upstream=upstream), asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(proxy._serve, "127.0.0.1", 0, limit=1 << 20))
    proxy.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.run_until_complete(_end(asyncio.all_tasks(loop)))
        loop.close()


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
