"""A proxy that delivers every byte late, as a distant server does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import Thread


@contextmanager
def delayed(port: int, seconds: float) -> Iterator[int]:
    """Serve what listens on a port of this machine from another port, late in both directions."""
    started: Future[Proxy] = Future()
    thread = Thread(target=lambda: asyncio.run(Proxy(port, seconds).run(started)))
    thread.start()
    proxy = started.result()
    try:
        yield proxy.port
    finally:
        proxy.stop()
        thread.join()


class Proxy:
    """Connections to a port of this machine, from another one."""

    def __init__(self, behind: int, seconds: float) -> None:
        self.port = 0
        self._behind = behind
        self._seconds = seconds
        self._writers: list[asyncio.StreamWriter] = []
        self._relays: list[asyncio.Task[None]] = []

    async def run(self, started: Future[Proxy]) -> None:
        """Serve until `stop` is called."""
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        started.set_result(self)
        await self._stopped.wait()
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._relays, return_exceptions=True)

    def stop(self) -> None:
        """Close all connections."""
        self._loop.call_soon_threadsafe(self._stopped.set)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._relays.append(task)
        self._writers.append(writer)
        inner, inner_writer = await asyncio.open_connection("127.0.0.1", self._behind)
        self._writers.append(inner_writer)
        await asyncio.gather(self._deliver(reader, inner_writer), self._deliver(inner, writer))

    async def _deliver(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what arrives, each piece so much later, without waiting for the one before."""
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        writing = asyncio.create_task(self._write(pieces, writer))
        piece = b"anything"
        while piece:
            piece = b""
            with suppress(OSError):
                piece = await reader.read(65_536)
            pieces.put_nowait((self._loop.time() + self._seconds, piece))
        await writing

    async def _write(
        self, pieces: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while True:
                due, piece = await pieces.get()
                await asyncio.sleep(due - self._loop.time())
                if not piece:
                    writer.close()
                    return
                writer.write(piece)
                await writer.drain()
