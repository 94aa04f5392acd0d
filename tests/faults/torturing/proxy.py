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
import collections
import multiprocessing
import os
import random
import selectors
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
        try:
            listener.bind(("127.0.0.1", random.SystemRandom().randrange(10000, 19999)))
        except OSError:
            listener.close()
            continue
        listener.listen(128)
        listener.setblocking(False)
        return listener
    raise RuntimeError("no free port between 10000 and 19999")


def reset(sock):
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass
    sock.close()


class Half:
    """One side of a connection, and what waits to be written to it."""

    def __init__(self, sock, pair):
        self.sock, self.pair = sock, pair
        self.peer = None
        self.out = b""
        self.lagging = collections.deque()  # (when it is written, data)
        self.open = True
        self.at_end = False  # its peer has said FIN: all ends when `out` is written


class Pair:
    def __init__(self, proxy):
        self.proxy = proxy
        self.client = self.server = None
        self.hole = False
        self.budget = None


class Proxy:
    def __init__(self, listener, port):
        self.listener, self.server_port = listener, port
        self.stalled = self.hole = False
        self.cut_after = None
        self.lag = 0.0
        self.pairs = set()


class Engine:
    """The child process: one selector, no threads."""

    def __init__(self, proxies, pipe):
        self.selector = selectors.DefaultSelector()
        self.proxies, self.pipe = proxies, pipe
        self.lagging = set()  # halves that have something to be written later
        self.selector.register(pipe, selectors.EVENT_READ, "pipe")
        for proxy in proxies.values():
            self.selector.register(proxy.listener, selectors.EVENT_READ, proxy)

    def run(self):
        while True:
            at = min((half.lagging[0][0] for half in self.lagging), default=None)
            for key, events in self.selector.select(None if at is None else max(at - time.monotonic(), 0)):
                if key.data == "pipe":
                    try:
                        name, *command = self.pipe.recv()
                    except EOFError:
                        return
                    self.command(self.proxies[name], *command)
                elif isinstance(key.data, Proxy):
                    self.accept(key.data)
                elif key.data.open:
                    self.move(key.data, events)
            for half in list(self.lagging):
                self.release(half)

    def release(self, half):
        while half.open and half.lagging and half.lagging[0][0] <= time.monotonic():
            half.out += half.lagging.popleft()[1]
        if not half.open or not half.lagging:
            self.lagging.discard(half)
        if half.open:
            self.watch(half.pair)

    def command(self, proxy, what, value=None):
        if what == "cut":
            for pair in list(proxy.pairs):
                self.drop(pair)
        elif what == "stall":
            proxy.stalled = value
            for pair in proxy.pairs:
                self.watch(pair)
        elif what == "black_hole":
            proxy.hole = value
            if value:
                for pair in proxy.pairs:
                    pair.hole = True
                    self.watch(pair)
        elif what == "lag":
            proxy.lag = value
        elif what == "cut_after":
            proxy.cut_after = value
            for pair in proxy.pairs:
                pair.budget = value
        self.pipe.send(len(proxy.pairs))

    def accept(self, proxy):
        try:
            sock, _ = proxy.listener.accept()
        except OSError:
            return
        pair = Pair(proxy)
        pair.hole, pair.budget = proxy.hole, proxy.cut_after
        pair.client = Half(sock, pair)
        if not pair.hole:
            try:
                pair.server = Half(socket.create_connection(("127.0.0.1", proxy.server_port), 1), pair)
            except OSError:
                reset(sock)
                return
            pair.client.peer, pair.server.peer = pair.server, pair.client
        proxy.pairs.add(pair)
        for half in (pair.client, pair.server):
            if half:
                half.sock.setblocking(False)
                half.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.watch(pair)

    def watch(self, pair):
        for half in (pair.client, pair.server):
            if not half:
                continue
            events = 0
            if half.open and not pair.proxy.stalled:
                events = selectors.EVENT_WRITE if half.out else 0
                # What is not written on yet is not read either.
                if pair.hole or (half.peer and not half.peer.out and not half.peer.at_end):
                    events |= selectors.EVENT_READ
            known = half.sock.fileno() in self.selector.get_map() if half.sock.fileno() >= 0 else False
            if events and known:
                self.selector.modify(half.sock, events, half)
            elif events:
                self.selector.register(half.sock, events, half)
            elif known:
                self.selector.unregister(half.sock)

    def move(self, half, events):
        pair = half.pair
        try:
            if events & selectors.EVENT_WRITE and half.out:
                half.out = half.out[half.sock.send(half.out):]
            if events & selectors.EVENT_READ and not self.read(half):
                return
            if half.at_end and not half.out and not pair.hole:
                self.drop(pair, orderly=True)
                return
        except BlockingIOError:
            pass
        except OSError:
            self.gone(half)
            return
        self.watch(pair)

    def read(self, half):
        """False where the pair is gone."""
        pair = half.pair
        data = half.sock.recv(CHUNK)
        if pair.hole:
            if not data:
                self.gone(half)
            return bool(data)
        if not data:  # the protocols here end a connection as a whole: half a one is of no use
            half.peer.at_end = True
            if not half.peer.out:
                self.drop(pair, orderly=True)
            return bool(half.peer.out)
        if pair.budget is not None:
            if len(data) >= pair.budget:
                if pair.budget:
                    try:
                        half.peer.sock.send(data[:pair.budget])
                    except OSError:
                        pass
                self.drop(pair)
                return False
            pair.budget -= len(data)
        if half.peer.lagging or (pair.proxy.lag and half is pair.server):
            half.peer.lagging.append((time.monotonic() + pair.proxy.lag, data))
            self.lagging.add(half.peer)
            return True
        half.peer.out += data
        half.peer.out = half.peer.out[half.peer.sock.send(half.peer.out):]
        return True

    def gone(self, half):
        pair = half.pair
        if not pair.hole:
            self.drop(pair)
            return
        # The other side does not hear of it: that is what a black hole is.
        self.close(half)
        if not any(h and h.open for h in (pair.client, pair.server)):
            pair.proxy.pairs.discard(pair)

    def drop(self, pair, orderly=False):
        for half in (pair.client, pair.server):
            if half and half.open:
                self.close(half, orderly)
        pair.proxy.pairs.discard(pair)

    def close(self, half, orderly=False):
        half.open = False
        try:
            self.selector.unregister(half.sock)
        except (KeyError, ValueError):
            pass
        if orderly:
            half.sock.close()
        else:
            reset(half.sock)


def serve(listeners, pipe):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the harness ends us by closing the pipe
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Engine({name: Proxy(listener, port) for name, (listener, port) in listeners.items()}, pipe).run()
    os._exit(0)


class Proxies:
    """targets: {key: server port}. Start it before any thread is started: it forks."""

    def __init__(self, targets):
        listeners = {key: (take_port(), port) for key, port in targets.items()}
        self.ports = {key: listener.getsockname()[1] for key, (listener, _) in listeners.items()}
        self.pipe, theirs = multiprocessing.Pipe()
        self.lock = threading.Lock()

        def child():
            self.pipe.close()
            serve(listeners, theirs)

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
