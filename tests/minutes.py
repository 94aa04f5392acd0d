"""Prints where the minutes went: each step of $RUNG_STEPS (tests/steps.sh), then the longest tests.

usage: minutes.py STEPS RESULTS-FOLDER...
"""
import pathlib
import sys
import xml.etree.ElementTree as ET

LONGEST = 10


def steps(path):
    """(name, start, wall, CPU) of each step, in the order in which they began."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else []:
        fields = line.replace(",", ".").split("\t")
        if len(fields) == 5:
            name, start, wall, user, system = fields
            rows.append((name, float(start), float(wall), float(user) + float(system)))
    return sorted(rows, key=lambda row: row[1])


def tests(folders):
    """(seconds, build, test) of every test, the longest first."""
    rows = []
    for folder in folders:
        for report in folder.glob("ctest-*.xml"):
            for test in ET.parse(report).getroot().iter("testcase"):
                rows.append((float(test.get("time") or 0), folder.parent.name, test.get("name")))
    return sorted(rows, reverse=True)


def main(path, folders):
    rows = steps(pathlib.Path(path))
    print(f"\n{'step':<22}{'began at':>10}{'wall s':>10}{'CPU s':>10}")
    for name, start, wall, cpu in rows:
        print(f"{name:<22}{start - rows[0][1]:>10.0f}{wall:>10.1f}{cpu:>10.1f}")
    if rows:
        whole = max(start + wall for _, start, wall, _ in rows) - rows[0][1]
        print(f"{'all':<22}{'':>10}{whole:>10.1f}{sum(row[3] for row in rows):>10.1f}")
    print(f"\nthe {LONGEST} longest tests (wall s)")
    for seconds, build, test in tests(map(pathlib.Path, folders))[:LONGEST]:
        print(f"{seconds:>8.1f}  {build} {test}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
