"""Runs examples/quickstart in a terminal: to its end, and cut by Ctrl-C. It ends by itself with every message succeeded or
parked, and neither process nor folder is left, ever."""
import os
import pathlib
import re
import shutil
import signal
import tempfile

import pexpect
import pytest
from starting import BOUND_SECONDS, PROGRAM, ROOT, until


@pytest.fixture
def folder():
    """Its TMPDIR, which is the mark of every process that it starts; short, for the paths of sockets."""
    name = tempfile.mkdtemp(prefix="rung-qt.")
    yield pathlib.Path(name)
    for pid, _ in left_processes(name):  # of a test that failed
        os.kill(int(pid), signal.SIGKILL)
    shutil.rmtree(name, ignore_errors=True)


def left_processes(folder):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"TMPDIR={folder}\0".encode() in (entry / "environ").read_bytes():
                found.append((entry.name, (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:100]))
        except OSError:  # ended meanwhile, or not ours
            pass
    return found


def start(folder):
    return pexpect.spawn(str(ROOT / "examples/quickstart"), env={**os.environ, "TMPDIR": str(folder), "RUNG_PROGRAM": PROGRAM},
                         encoding="utf-8", dimensions=(50, 200), timeout=2 * BOUND_SECONDS)


def end(terminal, folder):
    """Its exit code, and what it printed since the last expect()."""
    text = terminal.read()
    terminal.close()
    until("none of its processes is left", lambda: not left_processes(folder), told=lambda: f"{left_processes(folder)}\n{text}")
    assert os.listdir(folder) == [], text
    return terminal.exitstatus or terminal.signalstatus or 0, text


def test_ends_by_itself(folder):
    code, text = end(start(folder), folder)
    assert code == 0, text
    counts = text[text.index("retry_by_queue"):]
    for line in (r"orders +succeeded +7\b", r"orders +parked +1\b", r"Done in \d+ s"):
        assert re.search(line, counts), text


def cut(terminal, folder):
    terminal.sendintr()
    code, text = end(terminal, folder)
    assert code in (130, signal.SIGINT), text


def test_ctrl_c_while_the_servers_start(folder):
    terminal = start(folder)
    until("the servers' folder is made", lambda: list(folder.glob("*/servers/*")))
    cut(terminal, folder)


@pytest.mark.parametrize("printed", ["Eight orders", "History of one message"])
def test_ctrl_c_after(printed, folder):
    terminal = start(folder)
    terminal.expect(printed)
    cut(terminal, folder)
