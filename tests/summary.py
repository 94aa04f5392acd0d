"""Counts test cases by kind from the folders given: gtest's XML and ctest's. Exit 1 when any failed or none ran.

A ctest test that left no gtest XML (a script, or a binary that crashed) counts as one case, with ctest's word on it. Where
CI ran a binary a second time (gtest numbers its further reports _1, _2), the last run counts. What failed first and passed
then is listed as REPEATED, with how often this clone has seen it (build/repeated.tsv): often is a bug; of what left no
XML the last lines that it printed.

--table: a Markdown table too, a line for each suite and a column for each folder, for docs/compatibility.md.
"""
import collections
import pathlib
import re
import sys
import time
import xml.etree.ElementTree as ET

# What ctest prints of a run that failed, whatever became of the next.
FAILED_RUN = re.compile(r"Test +#\d+: (\S+) \.*\s*\*\*\*")
REPEATED = pathlib.Path("build/repeated.tsv")
KINDS = ["unit", "contract", "integration", "faults"]


# Where in ctest's log the output of one test ends.
NEXT_TEST = re.compile(r"^(?: *\d+/\d+ Test +#| +Start +\d+:|The following tests|\d+% tests passed)", re.M)
LAST_LINES = 15


def gtest_counts(path):
    """(passed, failed, skipped, names of the failed) of one binary's cases."""
    passed, skipped, failed = 0, 0, []
    for case in ET.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None:
            failed.append(f"{case.get('classname')}.{case.get('name')}")
        elif case.get("result") == "completed":
            passed += 1
        else:
            skipped += 1
    return passed, failed, skipped


def reports(folder, kind, room):
    """A binary's, in the order in which they were written."""
    own = folder / f"{kind}.{room}"  # rung_run in tests/CMakeLists.txt
    if own.is_dir():
        return sorted(own.glob("*.xml"), key=lambda path: path.stat().st_mtime)
    stem = f"test_{kind}_{room}"
    numbered = (folder / f"{stem}_{n}.xml" for n in range(1, 10))
    return [path for path in (folder / f"{stem}.xml", *numbered) if path.exists()]


def last_words(log, name):
    """The end of what the first failed run of a test printed."""
    begin = re.search(rf"Test +#\d+: {re.escape(name)} \.*\s*\*\*\*.*\n", log)
    if not begin:
        return "(no report)"
    end = NEXT_TEST.search(log, begin.end())
    lines = log[begin.end():end.start() if end else None].strip().splitlines()
    return "\n  | ".join(["(no report). It ended with:", *lines[-LAST_LINES:]])


def read(folder, totals, bad, again, suites):
    for report in sorted(folder.glob("ctest-*.xml")):
        log = report.with_suffix(".log")
        printed = log.read_text(errors="replace") if log.exists() else ""
        failed_runs = set(FAILED_RUN.findall(printed))
        for test in ET.parse(report).getroot().iter("testcase"):
            name, ok = test.get("name"), test.get("status") == "run"
            kind, _, room = name.partition(".")
            written = reports(folder, kind, room)
            left_out = test.find("skipped") is not None  # it said so itself (SKIP_RETURN_CODE)
            if written:
                passed, failed, skipped = gtest_counts(written[-1])
            else:
                passed, failed, skipped = int(ok), [] if ok or left_out else [last_words(printed, name)], int(left_out)
            if ok and name in failed_runs:
                cases = [case for earlier in written[:-1] for case in gtest_counts(earlier)[1]]
                again += [f"{folder.parent.name} {name}: {case}" for case in cases or [last_words(printed, name)]]
            if not ok and not left_out and not failed:
                failed = ["(did not end well: " + (test.get("status") or "") + ")"]
            totals[kind][0] += passed
            totals[kind][1] += len(failed)
            totals[kind][2] += skipped
            totals[kind][3] += 1
            suite = re.sub(r"\.\d+$", "", name)  # PARTS
            suites[suite] = tuple(map(sum, zip(suites.get(suite, (0, 0, 0)), (passed, len(failed), skipped))))
            bad += [f"{folder.parent.name} {name}: {case}" for case in failed]


def remember(again):
    """Adds what was repeated to the clone's list; how often each of them stands there."""
    if not again:
        return {}
    with REPEATED.open("a") as out:
        out.writelines(f"{time.strftime('%F %T')}\t{line.splitlines()[0]}\n" for line in again)
    seen = collections.Counter(line.split("\t", 1)[1] for line in REPEATED.read_text().splitlines())
    return {line: seen[line.splitlines()[0]] for line in again}


def print_table(columns):
    """columns: {folder: {suite: (passed, failed, skipped)}}"""
    heads = []
    for folder in columns:
        texts = [(folder / name).read_text().strip() for name in ("versions", "date") if (folder / name).exists()]
        heads.append(" <br> ".join([f"`{folder.parent.name}`", *texts]))
    print("\n| suite | " + " | ".join(heads) + " |\n|" + "---|" * (len(columns) + 1))
    for suite in sorted({suite for column in columns.values() for suite in column}):
        cells = []
        for column in columns.values():
            passed, failed, skipped = column.get(suite, (0, 0, 0))
            words = [str(passed)] + [f"**{failed} failed**"] * bool(failed) + [f"{skipped} skipped"] * bool(skipped)
            cells.append(", ".join(words) if suite in column else "-")
        print(f"| {suite} | " + " | ".join(cells) + " |")


def main(folders):
    passed = failed = 0
    bad, again, columns = [], [], {}
    table = "--table" in folders
    for folder in (pathlib.Path(name) for name in folders if name != "--table"):
        totals = collections.defaultdict(lambda: [0, 0, 0, 0])
        read(folder, totals, bad, again, columns.setdefault(folder, {}))
        print(f"\n{folder.parent.name:<13}{'passed':>8}{'failed':>8}{'skipped':>9}{'binaries':>10}")
        for kind in KINDS + sorted(set(totals) - set(KINDS)):
            print(f"  {kind:<11}{totals[kind][0]:>8}{totals[kind][1]:>8}{totals[kind][2]:>9}{totals[kind][3]:>10}")
            passed += totals[kind][0]
            failed += totals[kind][1]
    if table:
        print_table(columns)
    for line, times in remember(again).items():
        print(f"REPEATED (failed, then passed; {times} times in this clone)", line)
    for line in bad:
        print("FAILED", line)
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
