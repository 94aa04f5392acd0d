"""Counts test cases by kind from the folders given: gtest's XML, pytest's and ctest's. Exit 1 when any failed or none ran.

A ctest test that left no XML (a script, or a binary that crashed) counts as one case, with ctest's word on it. Of what
failed, the first lines that it said follow: all of it is in ctest-all.log.

--table: a Markdown table too, a line for each suite and a column for each folder.
"""
import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ET

KINDS = ["unit", "contract", "integration", "faults"]
# Where in ctest's log the output of one test ends.
NEXT_TEST = re.compile(r"^(?: *\d+/\d+ Test +#| +Start +\d+:|The following tests|\d+% tests passed)", re.M)
LINES = 15


def counts(path):
    """(passed, what failed with the first lines of its message, skipped) of one binary's cases."""
    passed, skipped, failed = 0, 0, []
    for case in ET.parse(path).getroot().iter("testcase"):
        failure = next(case.iter("failure"), next(case.iter("error"), None))
        if failure is not None:
            message = "\n  | ".join((failure.get("message") or "").strip().splitlines()[:LINES])
            failed.append(f"{case.get('classname')}.{case.get('name')}\n  | {message}")
        elif case.find("skipped") is not None or case.get("result", "completed") != "completed":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def report_of(folder, kind, room):
    """A binary's; the last where it left several."""
    own = folder / f"{kind}.{room}"  # rung_run in tests/CMakeLists.txt
    written = own.glob("*.xml") if own.is_dir() else folder.glob(f"test_{kind}_{room}.xml")
    return max(written, key=lambda path: path.stat().st_mtime, default=None)


def last_words(log, name):
    """The end of what a test printed that failed."""
    begin = re.search(rf"Test +#\d+: {re.escape(name)} \.*\s*\*\*\*.*\n", log)
    if not begin:
        return "(no report)"
    end = NEXT_TEST.search(log, begin.end())
    lines = log[begin.end():end.start() if end else None].strip().splitlines()
    return "\n  | ".join(["(no report). It ended with:", *lines[-LINES:]])


def read(folder, totals, bad, suites):
    for report in sorted(folder.glob("ctest-*.xml")):
        log = report.with_suffix(".log")
        printed = log.read_text(errors="replace") if log.exists() else ""
        for test in ET.parse(report).getroot().iter("testcase"):
            name, ok = test.get("name"), test.get("status") == "run"
            kind, _, room = name.partition(".")
            written = report_of(folder, kind, room)
            left_out = test.find("skipped") is not None  # it said so itself (SKIP_RETURN_CODE)
            if written:
                passed, failed, skipped = counts(written)
            else:
                passed, failed, skipped = int(ok), [] if ok or left_out else [last_words(printed, name)], int(left_out)
            if not ok and not left_out and not failed:
                failed = ["(did not end well: " + (test.get("status") or "") + ")"]
            totals[kind][0] += passed
            totals[kind][1] += len(failed)
            totals[kind][2] += skipped
            totals[kind][3] += 1
            suite = re.sub(r"\.\d+$", "", name)  # PARTS
            suites[suite] = tuple(map(sum, zip(suites.get(suite, (0, 0, 0)), (passed, len(failed), skipped))))
            bad += [f"{folder.parent.name} {name}: {case}" for case in failed]


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
    bad, columns = [], {}
    table = "--table" in folders
    for folder in (pathlib.Path(name) for name in folders if name != "--table"):
        totals = collections.defaultdict(lambda: [0, 0, 0, 0])
        read(folder, totals, bad, columns.setdefault(folder, {}))
        print(f"\n{folder.parent.name:<13}{'passed':>8}{'failed':>8}{'skipped':>9}{'binaries':>10}")
        for kind in KINDS + sorted(set(totals) - set(KINDS)):
            print(f"  {kind:<11}{totals[kind][0]:>8}{totals[kind][1]:>8}{totals[kind][2]:>9}{totals[kind][3]:>10}")
            passed += totals[kind][0]
            failed += totals[kind][1]
    if table:
        print_table(columns)
    for line in bad:
        print("FAILED", line)
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
