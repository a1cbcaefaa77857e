#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Print the table of changes, verdicts, reasons and tests, from the tests themselves.

usage: coverage.py [--check FILE | --write FILE]

Each selftest says in its TEST_LIST what it shows. Those of section 1 of the
contract (a change of the network, and what becomes of an id) make the table.
--check fails if FILE does not end with it, --write makes it so and leaves what
stands above the first table; a text without a verdict fails as well.
"""
import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).parent.parent / "tools/testing/selftests/rdma"
FAMILIES = {"4": "IPv4", "6": "IPv6", "46": "both", "-": ""}
REASONS = "LINK FAILOVER ROUTE UNREACHABLE ADDRESS NEIGHBOUR".split()
VERDICTS = ("down", "superseded", "silent", "aligned", "no verdict")
AREAS = {
    "route": "Routes and rules",
    "nexthop": "Nexthop objects and multipath routes",
    "link": "Links",
    "device": "Netdevices",
    "bond": "Bonds",
    "addr": "Addresses",
    "neigh": "Neighbours, redirects, routers",
    "passive": "Passive ids",
    "pinned": "Pinned ids",
    "mcast": "Multicast groups",
    "netns": "Network namespaces",
    "silent": "What is no misalignment",
}


def tests(name):
    """(test, families, text) of each test of section 1 in a script."""
    script = (TESTS / f"align_{name}.sh").read_text()
    listed = re.search(r"^TEST_LIST='\n(.*?)^'", script, re.M | re.S).group(1)
    for line in listed.splitlines():
        test, families, text = re.split(r"\t+", line.strip(), maxsplit=2)
        match = re.match(r"(?:1|\d, 1|1, \d): (.*)", text)
        if match:
            yield test, families, re.sub(r"; R\d+(, R\d+)*", "", match.group(1))


def judge(name, text):
    """The verdict and the reason that a text names."""
    reasons = [word for word in re.findall(r"[A-Z]+", text) if word in REASONS]
    verdict = next((word for word in VERDICTS if re.search(rf"\b{word}\b(?!-)", text)), None)
    if name == "silent":
        return "silent", ""
    if reasons and verdict not in ("down", "superseded"):
        verdict = "superseded" if reasons[0] == "NEIGHBOUR" else "down"
    if not verdict:
        sys.exit(f"coverage.py: align_{name}: no verdict in: {text}")
    return verdict, reasons[0] if reasons else ""


def change(text):
    """What happens: the text without what is told of it."""
    text = re.sub(r":? ?(down|superseded), [A-Z]+.*$", "", text)
    return re.sub(r": (silent|aligned|no verdict|[A-Z]{4,}).*$", "", text).rstrip(" :")


def table(rows):
    head = ("change", "family", "verdict", "reason", "test")
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    rule = " ".join("=" * width for width in widths)

    def line(row):
        return " ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()

    return [rule, line(head), rule, *map(line, rows), rule]


def document():
    for name, title in AREAS.items():
        rows = []
        for test, families, text in tests(name):
            verdict, reason = judge(name, text)
            cells = (change(text), FAMILIES[families], verdict, reason, f"align_{name}.{test}")
            rows.append(tuple(cell or r"\-" for cell in cells))
        yield from ("", title, "-" * len(title), "", *table(rows))


def main():
    wanted = "\n".join(document()) + "\n"
    if len(sys.argv) == 1:
        sys.stdout.write(wanted)
    elif len(sys.argv) == 3 and sys.argv[1] == "--check":
        if not pathlib.Path(sys.argv[2]).read_text().endswith(wanted):
            sys.exit(f"coverage.py: the table in {sys.argv[2]} is not that of the tests: "
                     f"scripts/coverage.py --write {sys.argv[2]}")
    elif len(sys.argv) == 3 and sys.argv[1] == "--write":
        path = pathlib.Path(sys.argv[2])
        first = wanted[:wanted.index("=")]
        above, found, _ = path.read_text().partition(first)
        if not found:
            sys.exit(f"coverage.py: no table in {path}")
        path.write_text(above + wanted)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
