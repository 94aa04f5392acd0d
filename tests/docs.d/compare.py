"""What a page shows, and what was printed: the same but for times, ids, numbers and names of machines."""
import re

CHANGING = [
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "TIME"),
    (r"\b\d{15,}\b", "ID"),
    (r"[\w.-]+@[\w.-]+ \((cli|http)\)", "WHO"),
    (r"\b(\d+(\.\d+)?(ms|us|s|m|h|d))+\b", "SPAN"),
    (r"\b(now|in SPAN|SPAN ago)\b", "THEN"),
    (r"\b\d+(\.\d+)+\b", "VERSION"),
    (r"\b[\w.-]+:\d+\b", "ADDRESS"),
    (r"\b\d+\b", "NUMBER"),
]
EXACT = re.compile(r"rung (check|dialects)\b")  # the same each time


def same_each_time(line):
    return line.rstrip()


def shape(line):
    for pattern, word in CHANGING:
        line = re.sub(pattern, word, line)
    return " ".join(line.split())


def matches(shown, printed):
    for end in ("...", "…"):
        if shown.endswith(end):
            return printed.startswith(shown[:-len(end)])
    return shown == printed


def aligned(shown, printed):
    """The first line of `shown` that has no counterpart, or None. A line '...' stands for any number of lines."""
    at, free = 0, False
    for line in shown:
        if line == "...":
            free = True
            continue
        while free and at < len(printed) and not matches(line, printed[at]):
            at += 1
        if at >= len(printed) or not matches(line, printed[at]):
            return line, printed[at] if at < len(printed) else "(nothing)"
        at, free = at + 1, False
    if at < len(printed) and not free and shown:
        return "(nothing)", printed[at]
    return None


def console(block, command, shown, text):
    form = same_each_time if EXACT.search(command) else shape
    clean = [form(line) for line in shown if line.strip()]
    printed = [form(line) for line in text.splitlines() if line.strip()]
    if "not compared" in block.notes:
        # The titles of a table all the same.
        if clean and clean[0].isupper() and (not printed or printed[0] != clean[0]):
            yield f"{block.where}: $ {command}\n  shown:   {clean[0]}\n  printed: {printed[0] if printed else '(nothing)'}"
        return
    wrong = aligned(clean, printed)
    if wrong:
        yield f"{block.where}: $ {command}\n  shown:   {wrong[0]}\n  printed: {wrong[1]}"


def http(page, folder):
    """Of a block with curl: each status, and that the response has what the block `http` under it shows."""
    for block, after in zip(page.blocks, page.blocks[1:] + [None]):
        statuses, printed = folder / f"{block.line}.http", folder / f"{block.line}.out"
        if block.language != "sh" or not statuses.exists():
            continue
        body = printed.read_text()
        got = statuses.read_text().split()
        shown = after.text if after is not None and after.language == "http" else ""
        status = re.match(r"HTTP/1.1 (\d+)", shown)
        if status and status[1] != got.pop():
            yield f"{after.where}: shows status {status[1]}, the response had {statuses.read_text().split()[-1]}: {body[:300]}"
        for code in got:
            if not code.startswith("2"):
                yield f"{block.where}: a response has the status {code}: {body[:300]}"
        absent = [key for key in re.findall(r'"(\w+)":', shown) if f'"{key}":' not in body]
        if absent:
            yield f"{after.where}: shows {', '.join(absent)}, which the response does not have: {body[:300]}"
