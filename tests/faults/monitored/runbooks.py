"""The runbooks, followed: each command of a block ```sh look, do or over is run, and must exit and print as its comment says.

A comment names the exit code where it is not 0, and texts of the output in quotes:

    rung stats    # exit code 1: "overdue"
    rung doctor    # exit code 0 or 1
"""
import re
import shlex

from .world import ROOT, until

PAGE = ROOT / "docs/runbooks.md"
SECTION = re.compile(r"^## (Rung\w+)\n(.*?)(?=^## |\Z)", re.M | re.S)
BLOCK = re.compile(r"^```(sh|sql) (look|do|over)\n(.*?)^```$", re.M | re.S)
WAIT_SECONDS = 30  # figures follow the fault within seconds


def sections():
    """{the anchor of a runbook: its text}"""
    return {name.lower(): text for name, text in SECTION.findall(PAGE.read_text())}


def commands(runbook, kind):
    """[(command, exit codes, texts of its output)]"""
    found = []
    for language, its_kind, text in BLOCK.findall(sections()[runbook.lower()]):
        if its_kind != kind:
            continue
        if language == "sql":
            found.append((f"mariadb -t rung -e {shlex.quote(text.strip())}", [0], []))
            continue
        for line in re.sub(r"\\\n", "", text).splitlines():
            command, _, comment = line.partition("  # ")
            if command.strip() and not command.startswith("#"):
                codes = re.search(r"exit code ([0-9]+( or [0-9]+)*)", comment)
                found.append((command.strip(), [int(code) for code in codes[1].split(" or ")] if codes else [0],
                              re.findall(r'"([^"]+)"', comment)))
    return found


def follow(world, sidecar, runbook, kind, queue):
    """Runs the commands where the sidecar runs, for its addresses and `queue` in place of those of the page."""
    schema = "pair" if sidecar.job == "rung-pair" else "rung"
    for command, codes, texts in commands(runbook, kind):
        real = re.sub(r"\borders\b", queue, command).replace("127.0.0.1:8025", sidecar.address)
        real = real.replace("mariadb -t rung", f"mariadb -t {schema}").replace("$PID", str(sidecar.process.pid))
        texts = [re.sub(r"\borders\b", queue, text) for text in texts]
        seen = []

        def as_said():
            seen[:] = [world.run(real, sidecar)]
            return seen[0].returncode in codes and all(text in seen[0].stdout for text in texts)

        try:
            until("as the page says", as_said, WAIT_SECONDS)
        except AssertionError:
            raise AssertionError(f"docs/runbooks.md, {runbook}: {command!r} should exit {codes} and print {texts}; "
                                 f"it exited {seen[0].returncode} and printed:\n{seen[0].stdout}") from None
        world.followed.append((runbook, kind, command, seen[0].stdout))
