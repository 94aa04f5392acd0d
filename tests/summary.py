"""Counts test cases by kind from the folders given: gtest's XML and ctest's. Exit 1 when any failed or none ran.

A ctest test that left no gtest XML (a script, or a binary that crashed) counts as one case, with ctest's word on it. Where
CI asked a binary a second time (gtest numbers its further reports _1, _2), the last answer counts and the first is told.
"""
import collections
import pathlib
import sys
import xml.etree.ElementTree as ET

KINDS = ["unit", "contract", "integration", "faults"]


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
    stem = f"test_{kind}_{room}"
    numbered = (folder / f"{stem}_{n}.xml" for n in range(1, 10))
    return [path for path in (folder / f"{stem}.xml", *numbered) if path.exists()]


def read(folder, totals, bad, again):
    for report in sorted(folder.glob("ctest-*.xml")):
        for test in ET.parse(report).getroot().iter("testcase"):
            name, ok = test.get("name"), test.get("status") == "run"
            kind, _, room = name.partition(".")
            written = reports(folder, kind, room)
            passed, failed, skipped = gtest_counts(written[-1]) if written else (int(ok), [] if ok else ["(no report)"], 0)
            for earlier in written[:-1]:
                again += [f"{folder.parent.name} {name}: {case}" for case in gtest_counts(earlier)[1] or ["(crashed)"]]
            if not ok and not failed:
                failed = ["(did not end well: " + (test.get("status") or "") + ")"]
            totals[kind][0] += passed
            totals[kind][1] += len(failed)
            totals[kind][2] += skipped
            totals[kind][3] += 1
            bad += [f"{folder.parent.name} {name}: {case}" for case in failed]


def main(folders):
    passed = failed = 0
    bad, again = [], []
    for folder in map(pathlib.Path, folders):
        totals = collections.defaultdict(lambda: [0, 0, 0, 0])
        read(folder, totals, bad, again)
        print(f"\n{folder.parent.name:<13}{'passed':>8}{'failed':>8}{'skipped':>9}{'binaries':>10}")
        for kind in KINDS + sorted(set(totals) - set(KINDS)):
            print(f"  {kind:<11}{totals[kind][0]:>8}{totals[kind][1]:>8}{totals[kind][2]:>9}{totals[kind][3]:>10}")
            passed += totals[kind][0]
            failed += totals[kind][1]
    for line in again:
        print("ASKED TWICE", line)
    for line in bad:
        print("FAILED", line)
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
