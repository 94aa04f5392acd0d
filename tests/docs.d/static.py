"""What can be checked without the program: links, anchors, the index, and that each block parses as what its tag says."""
import ast
import json
import re
import shutil
import subprocess
import tempfile

import yaml

from pages import INDEX, ROOT, folders, index, is_external, pages, target_of, tracked, world_of

# Tags of blocks. Those without a parser here are excerpts of code that other tests compile or run.
TAGS = {"sh", "console", "yaml", "json", "jsonl", "sql", "text", "http", "python", "properties", "ini", "mermaid", "ts",
        "js", "ruby", "php", "java", "csharp", "go", "cpp", "promql", "diff"}
MENTION = re.compile(r"(?<![\w/.-])docs/[\w./-]+?\.md\b")
HISTORY = ("CHANGELOG.md", "docs/decisions.md")  # they may name what is gone


def links():
    for page in pages().values():
        for line, reason in page.complaints:
            yield f"{page.name}:{line}: {reason}"
        for line, href, _, _ in page.links:
            if is_external(href):
                continue
            path, anchor = target_of(page, href)
            if path.startswith(".."):
                yield f"{page.name}:{line}: {href} leaves the repository"
            elif path not in tracked() and path not in folders():
                yield f"{page.name}:{line}: {href}: there is no {path}"
            elif anchor and path in pages() and anchor not in pages()[path].anchors:
                yield f"{page.name}:{line}: {href}: {path} has no heading #{anchor}"


def external():
    return [f"{page.name}:{line}: {href}" for page in pages().values() for line, href, _, _ in page.links
            if is_external(href)]


def in_index():
    """Each page of docs/ stands in docs/README.md."""
    listed = {path for _, entries in index() for _, path in entries}
    for name, page in pages().items():
        if name.startswith("docs/") and page.path != INDEX and name not in listed:
            yield f"{name}: is not in docs/README.md"


def mentions():
    """Pages that sources, scripts and texts name without a link."""
    for name in tracked():
        if name.startswith(HISTORY) or (ROOT / name).is_symlink() or not (ROOT / name).is_file():
            continue
        try:
            text = (ROOT / name).read_text()
        except UnicodeDecodeError:
            continue
        for match in MENTION.finditer(text):
            # Another project's docs/ has other folders.
            if match[0] not in tracked() and match[0].rpartition("/")[0] in folders():
                yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: there is no {match[0]}"


def commands_of(block):
    """The block as a script with the same line numbers: of a console block only what is typed."""
    if block.language == "sh":
        return block.text
    return "".join(line[2:] + "\n" if line.startswith("$ ") else "\n" for line in block.text.splitlines())


def scripts():
    """bash -n and shellcheck, a page at a time: what one block sets, the next one may use."""
    for page in pages().values():
        lines = []
        for block in page.blocks:
            if block.language in ("sh", "console"):
                lines += [""] * (block.line - 1 - len(lines)) + commands_of(block).splitlines()
        if not lines:
            continue
        with tempfile.NamedTemporaryFile("w", suffix=".sh") as script:
            script.write("\n".join(lines) + "\n")
            script.flush()
            for command in (["bash", "-n", script.name],
                            ["shellcheck", "-s", "bash", "-S", "warning", "-e", "SC2164", "-f", "gcc", script.name]):
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                for complaint in (done.stdout + done.stderr).splitlines():
                    yield complaint.replace(script.name, page.name)


def parse(block):
    """What is wrong with the block, or None."""
    text = block.text
    try:
        if block.language == "yaml":
            list(yaml.safe_load_all(text))
        elif block.language == "json":
            json.loads(text)
        elif block.language == "jsonl":
            for line in text.splitlines():
                json.loads(line)
        elif block.language == "python":
            ast.parse(text)
        elif block.language == "properties":
            bad = [line for line in text.splitlines() if line.strip() and not re.match(r"\s*(#|[\w.-]+\s*=)", line)]
            return f"not NAME=VALUE: {bad[0]}" if bad else None
        elif block.language == "php" and shutil.which("php"):
            return tool(["php", "-l"], text if text.startswith("<?php") else "<?php " + text)
        elif block.language == "ruby" and shutil.which("ruby"):
            return tool(["ruby", "-c"], text)
    except (yaml.YAMLError, ValueError, SyntaxError) as error:
        return " ".join(str(error).split())
    return None


def tool(command, text):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else " ".join((done.stderr or done.stdout).split())


def blocks():
    for page in pages().values():
        for block in page.blocks:
            if not block.fenced:
                continue  # indented text has no language
            if block.language not in TAGS:
                yield f"{block.where}: the block's language is '{block.language}': give it one of {' '.join(sorted(TAGS))}"
                continue
            wrong = parse(block)
            if wrong:
                yield f"{block.where}: {block.language}: {wrong}"
            if block.language == "text" and re.search(r"^\$ ", block.text, re.MULTILINE):
                yield f"{block.where}: has commands: its language is console"


def is_run():
    """Where a reader types along, each command is run by tests/docs --run, or a comment says why not."""
    typed_along = {path for section, entries in index() if section in ("Learn", "Do") for _, path in entries}
    for name in sorted(typed_along):
        page = pages()[name]
        left = [block for block in page.blocks
                if block.language in ("sh", "console") and "not run" not in block.notes and not block.of_runbook]
        if left and not page.not_run and not world_of(page).exists():
            yield f"{left[0].where}: is not run: give the page a world ({world_of(page).relative_to(ROOT)}), or say why not " \
                "just above the block: <!-- not run: REASON -->"


def packages():
    """The README's apt-get line installs what tests/packages knows that a build needs."""
    needed = set(subprocess.run([str(ROOT / "tests/packages"), "--list", "build"], check=True, capture_output=True,
                                text=True).stdout.split())
    text = "".join(block.text for block in pages()["README.md"].blocks if "apt-get install" in block.text)
    for name in sorted(needed - set(text.split())):
        yield f"README.md: its apt-get line lacks {name}, which tests/packages says the build needs"


CHECKS = [links, in_index, mentions, scripts, blocks, is_run, packages]
