"""TCP proxies that hurt what goes through them. They live in a process of their own, so that what the harness does
in Python costs the sidecars no time; the harness speaks to it through `Proxies`.

A proxy is known by a key, e.g. ("sidecar-1", "db"). What can be done to it:
  cut        RST to both sides of every connection that is open; new ones are taken
  stall      nothing is read any more, in both directions: senders fill their buffers, nobody is told
  black_hole every connection, also a new one: what the client says is swallowed, no FIN, no answer. What was a black
             hole stays one when this ends; the server's side is left as it is, silent
  cut_after  every connection gets a budget of bytes, both directions together; where it is spent: RST
  lag        what the server says comes that many seconds later: answers are under way when the next fault strikes
"""
import asyncio
import contextlib
import multiprocessing
import os
import random
import signal
import socket
import struct
import threading
import time

CHUNK = 64 * 1024


def take_port():
    """A listening socket below the ephemeral ports: nobody's outgoing connection can sit there."""
    for _ in range(500):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", random.SystemRandom().randrange(10000, 19999)))
            listener.listen(128)
            listener.setblocking(False)
            return listener
        listener.close()
    raise RuntimeError("no free port between 10000 and 19999")


class Pair:
    """A connection: the client's socket and the server's, and the tasks that carry between them."""

    def __init__(self, proxy, client, server):
        self.proxy, self.client, self.server = proxy, client, server
        self.hole, self.budget = proxy.hole, proxy.cut_after
        proxy.pairs.add(self)
        self.open = {client, server} - {None}
        self.late = asyncio.Queue(64)  # (when it is written, data) of the server
        works = [(self.carry, client, server)] + ([(self.carry, server, client), (self.tell, client)] if server else [])
        self.tasks = [asyncio.create_task(self.guarded(*work)) for work in works]

    async def guarded(self, work, sock, *to):
        """What ends one direction ends both: the protocols here have no use for half a connection. Of a black hole the other
        side does not hear."""
        orderly = False
        with contextlib.suppress(OSError):
            orderly = await work(sock, *to)
        if self.hole and self.open != {sock}:
            self.close(sock, False)
        else:
            self.end(orderly)

    async def carry(self, of, to):
        loop = asyncio.get_running_loop()
        while True:
            await self.proxy.flowing.wait()
            data = await loop.sock_recv(of, CHUNK)
            await self.proxy.flowing.wait()
            if self.hole and data:
                continue
            if not data:
                await self.late.join()  # all that was said is written
                return not self.hole
            spent = self.budget is not None and len(data) >= self.budget
            if self.budget is not None:
                data = data[:self.budget]
                self.budget -= len(data)
            if of is self.client:
                await loop.sock_sendall(to, data)
            else:
                await self.late.put((time.monotonic() + self.proxy.lag, data))
            if spent:
                await self.late.join()
                return False

    async def tell(self, client):
        while True:
            at, data = await self.late.get()
            await asyncio.sleep(max(at - time.monotonic(), 0))
            await self.proxy.flowing.wait()
            if not self.hole:
                await asyncio.get_running_loop().sock_sendall(client, data)
            self.late.task_done()

    def close(self, sock, orderly):
        """With a RST if it is not orderly."""
        if sock not in self.open:
            return
        self.open.remove(sock)
        loop = asyncio.get_running_loop()
        loop.remove_reader(sock)
        loop.remove_writer(sock)
        if not orderly:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()

    def end(self, orderly=False):
        self.proxy.pairs.discard(self)
        for task in self.tasks:
            task.cancel()
        for sock in list(self.open):
            self.close(sock, orderly)


class Proxy:
    def __init__(self, listener, port):
        self.listener, self.server_port = listener, port
        self.hole, self.cut_after, self.lag = False, None, 0.0
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.pairs = set()

    async def serve(self):
        while True:
            with contextlib.suppress(OSError):
                client, _ = await asyncio.get_running_loop().sock_accept(self.listener)
                self.accept(client)

    def accept(self, client):
        server = None
        with contextlib.suppress(OSError):
            if not self.hole:
                server = socket.create_connection(("127.0.0.1", self.server_port), 1)
        for sock in filter(None, (client, server)):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = Pair(self, client, server)
        if not server and not self.hole:
            pair.end()

    def do(self, what, value):
        if what == "cut":
            for pair in list(self.pairs):
                pair.end()
        elif what == "stall":
            (self.flowing.clear if value else self.flowing.set)()
        elif what == "black_hole":
            self.hole = value
            for pair in self.pairs if value else ():
                pair.hole = True
        elif what == "lag":
            self.lag = value
        elif what == "cut_after":
            self.cut_after = value
            for pair in self.pairs:
                pair.budget = value
        return len(self.pairs)


async def serve(listeners, pipe):
    proxies = {name: Proxy(listener, port) for name, (listener, port) in listeners.items()}
    over = asyncio.Event()

    def command():
        try:
            name, what, value = pipe.recv()
            pipe.send(proxies[name].do(what, value))
        except EOFError:
            over.set()

    asyncio.get_running_loop().add_reader(pipe.fileno(), command)
    working = [asyncio.create_task(proxy.serve()) for proxy in proxies.values()]
    await over.wait()
    del working


class Proxies:
    """targets: {key: server port}. Start it before any thread is started: it forks."""

    def __init__(self, targets):
        listeners = {key: (take_port(), port) for key, port in targets.items()}
        self.ports = {key: listener.getsockname()[1] for key, (listener, _) in listeners.items()}
        self.pipe, theirs = multiprocessing.Pipe()
        self.lock = threading.Lock()

        def child():
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the harness ends us by closing the pipe
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self.pipe.close()
            asyncio.run(serve(listeners, theirs))
            os._exit(0)

        self.process = multiprocessing.get_context("fork").Process(target=child, daemon=True)
        self.process.start()
        theirs.close()
        for listener, _ in listeners.values():
            listener.close()

    def do(self, key, what, value=None):
        """Returns when it is so; the number of connections that are open then."""
        with self.lock:
            self.pipe.send((key, what, value))
            return self.pipe.recv()

    def close(self):
        self.pipe.close()
        self.process.join(2)
        if self.process.is_alive():
            self.process.kill()
