"""Runs examples/quickstart in a terminal of its own: to its end, and cut by Ctrl-C at several moments.

Holds: it ends by itself with every message succeeded or parked, and neither process nor folder is left, ever.
"""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import tempfile
import time
import unittest

from starting import PROGRAM, ROOT

QUICKSTART = ROOT / "examples" / "quickstart"
RUN_SECONDS, END_SECONDS = 240, 60  # bounds, generous: sanitizers and a busy machine


class Terminal:
    """The quickstart as the foreground process of a new terminal; TMPDIR is its mark on every process it starts."""

    def __init__(self, tmp, plain=False):
        self.text = b""
        # A Ctrl-C that comes before exec waits for it: this program, forked, would ignore it where Python runs its hooks.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self.pid, self.master = pty.fork()
        if self.pid != 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        else:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            environment = dict(os.environ, TMPDIR=tmp, RUNG_PROGRAM=PROGRAM)
            command = [str(QUICKSTART)] if not plain else ["/bin/bash", "-c", f"set -o pipefail; '{QUICKSTART}' | cat"]
            os.execve(command[0], command, environment)

    def read_until(self, pattern, seconds):
        """True when the pattern was printed; False when it ended or the time is over."""
        deadline = time.monotonic() + seconds
        while not (pattern and re.search(pattern, self.text)):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.master], [], [], left)[0]:
                return False
            try:
                self.text += os.read(self.master, 65536)
            except OSError:  # the last one closed the terminal
                return False
        return True

    def end(self, seconds):
        """The exit code; None when it did not end."""
        self.read_until(None, 0)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.read_until(None, 0.1)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.read_until(None, 1)  # what it printed last
                os.close(self.master)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return None


def left_processes(tmp):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"TMPDIR={tmp}\0".encode() in (entry / "environ").read_bytes():
                found.append((entry.name, (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:100]))
        except OSError:  # ended meanwhile, or not ours
            pass
    return found


def end_left_processes(tmp):
    """After a failed test: nothing of ours outlives it."""
    for pid, _ in left_processes(tmp):
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass


class Quickstart(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="rung-qt.")
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.addCleanup(end_left_processes, self.tmp)

    def check_nothing_left(self, text):
        deadline = time.monotonic() + 5
        while left_processes(self.tmp) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(left_processes(self.tmp), [], text)
        self.assertEqual(os.listdir(self.tmp), [], text)

    def check_run(self, plain):
        terminal = Terminal(self.tmp, plain)
        code = terminal.end(RUN_SECONDS)
        text = terminal.text.decode(errors="replace")
        self.assertEqual(code, 0, text)
        counts = text[text.index("retry_by_queue"):]
        self.assertRegex(counts, r"orders +succeeded +7\b", text)
        self.assertRegex(counts, r"orders +parked +1\b", text)
        self.assertRegex(counts, r"Done in \d+ s", text)
        self.assertEqual("\033[" in text.split("rung history")[0].split("Ladder:")[1].strip("\033[0m\r\n"), not plain)
        self.check_nothing_left(text)

    def test_ends_by_itself_in_a_terminal(self):
        self.check_run(plain=False)

    def test_ends_by_itself_in_a_pipe(self):
        self.check_run(plain=True)

    def cut(self, pattern, seconds):
        """Ctrl-C `seconds` after the pattern was printed (None: after the start)."""
        terminal = Terminal(self.tmp)
        if pattern:
            self.assertTrue(terminal.read_until(pattern, RUN_SECONDS), terminal.text)
        terminal.read_until(None, seconds)
        os.write(terminal.master, b"\x03")
        code = terminal.end(END_SECONDS)
        self.assertIn(code, (130, -signal.SIGINT), terminal.text)
        self.check_nothing_left(terminal.text)

    def test_ctrl_c_at_once(self):
        self.cut(None, 0.1)

    def test_ctrl_c_while_the_servers_start(self):
        for seconds in (0.5, 1.2, 3):
            with self.subTest(seconds=seconds):
                self.cut(None, seconds)

    def test_ctrl_c_in_the_show(self):
        self.cut(rb"Eight orders", 0)
        self.cut(rb"Eight orders", 3)

    def test_ctrl_c_at_the_end(self):
        self.cut(rb"story", 0)
