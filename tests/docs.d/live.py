"""The commands of the docs, given to the program and to private servers (tests/servers).

A page is run if it has a world: tests/docs.d/worlds/NAME.sh, a bash file with what the page takes for granted (files,
queues, a sidecar), and with the functions that comments of the page name: `<!-- before: FUNCTION -->` above a block. The
blocks of the page are then run in their order in one shell. Ports and hosts of the docs become those of the servers.
"""
import collections
import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import commands
import compare
from pages import ROOT, WORLDS, pages, world_of
from servers import Servers

RUN = ("sh", "console", "sql", "python")  # the blocks of a page with a world
SECONDS = 1500  # what takes so long hangs


def is_run(block):
    return block.fenced and block.language in RUN and "not run" not in block.notes and not block.page.not_run


def typed(block):
    """The commands of a console block, each with the output that the page shows."""
    out = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            out.append((line[2:], []))
        elif out:
            out[-1][1].append(line)
    return out


def script_of(page, servers, folder):
    """Writes the page as a script: each block in a file of its own, sourced by one shell."""
    lines = [f". {ROOT}/tests/docs.d/shell.sh", f"at {page.name}:0", f". {world_of(page)}"]
    for block in page.blocks:
        if block.language == "yaml":
            (folder / f"{block.line}.yaml").write_text(servers.local(block.text))
            lines.append(f"yaml_blocks+=({folder}/{block.line}.yaml)")
        if not is_run(block):
            continue
        lines.append(f"at {block.where}")
        if "before" in block.notes:
            lines.append(f"{block.notes['before']} >>{folder}/before.out 2>&1")
        (folder / f"{block.line}").write_text(servers.local(block.text))
        if block.language == "console":
            for i, (command, _) in enumerate(typed(block)):
                (folder / f"{block.line}.{i}").write_text(servers.local(command) + "\n")
                lines.append(f"console {block.line}.{i}")
        else:
            kind = "background" if "in the background" in block.notes else f"block_{block.language}"
            lines.append(f"{kind} {block.line}")
    lines.append("at end")
    return "\n".join(lines) + "\n"


def run_page(page, servers):
    servers.reset()
    with tempfile.TemporaryDirectory(prefix="rung-docs.") as name:
        folder = pathlib.Path(name)
        work = folder / "work"
        work.mkdir()
        (work / "examples").symlink_to(ROOT / "examples")
        script = folder / "page.sh"
        script.write_text(script_of(page, servers, folder))
        environment = dict(servers.environment, DOCS_FOLDER=str(folder), HOME=str(work))
        for name in ("RUNG_CONFIG", "RUNG_GROUP"):
            environment.pop(name, None)
        shell = subprocess.Popen(["bash", str(script)], cwd=work, env=environment, stdin=subprocess.DEVNULL, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            text = shell.communicate(timeout=SECONDS)[0]
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)  # and all that it started
            yield f"{page.name}: not done after {SECONDS} s: {shell.communicate()[0]}"
            return
        if shell.returncode != 0:
            yield from (text.strip() or f"{page.name}: exit status {shell.returncode}").splitlines()
        for block in page.blocks:
            if block.language == "console" and is_run(block):
                for i, (command, shown) in enumerate(typed(block)):
                    printed = folder / f"{block.line}.{i}.out"
                    if printed.exists():
                        yield from compare.console(block, command, [servers.local(line) for line in shown], printed.read_text())
        yield from compare.http(page, folder)


def lane(program, queue, tell, first):
    """Pages, one after the other, on servers of its own."""
    with Servers(program) as servers:
        first(servers)
        while True:
            try:
                page = queue.popleft()
            except IndexError:
                return
            tell(list(run_page(page, servers)))


def run(only):
    program = os.environ.get("RUNG_PROGRAM", str(ROOT / "build/dev/rung"))
    if not os.access(program, os.X_OK):
        sys.exit(f"tests/docs: there is no program {program}: build it, or set RUNG_PROGRAM")
    count = 0

    def tell(complaints):
        nonlocal count
        for complaint in complaints:
            print(complaint, file=sys.stderr, flush=True)
            count += 1

    chosen = [page for page in pages().values() if world_of(page).exists() and (not only or page.name in only)]
    tell(f"{name}: no such page, or it has no world in {WORLDS.relative_to(ROOT)}"
         for name in set(only) - {page.name for page in chosen})
    if not only:
        worlds = {path.name for path in WORLDS.glob("*.sh")} - {world_of(page).name for page in chosen}
        tell(f"tests/docs.d/worlds/{name}: no page has this world" for name in sorted(worlds))
    # They mostly wait: two at once, those with the most blocks first.
    queue = collections.deque(sorted(chosen, key=lambda page: -sum(map(is_run, page.blocks))))
    with tempfile.TemporaryDirectory(prefix="rung-docs.") as folder, concurrent.futures.ThreadPoolExecutor() as threads:
        lanes = [threads.submit(lane, program, queue, tell, lambda servers: only or tell(list(commands.planned(servers)))),
                 *([threads.submit(lane, program, queue, tell, lambda servers: None)] if len(chosen) > 1 else [])]
        if not only:
            tell(commands.parsed(program, folder))
            tell(commands.configs(program, folder))
        for one in lanes:
            one.result()
    blocks = sum(is_run(block) for page in chosen for block in page.blocks)
    print(f"docs: {blocks} blocks of {len(chosen)} pages run: {' '.join(page.name for page in chosen)}")
    return count
