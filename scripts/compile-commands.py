#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Write compile_commands.json from the .cmd files that Kbuild left.

usage: compile-commands.py OBJECT_DIR KERNEL_BUILD_DIR ASSEMBLED_TREE TOP

A file that is ours is named by its place in the repository, not by its copy in
the assembled tree.
"""
import json
import pathlib
import re
import sys

LINE = re.compile(r"^savedcmd_\S+\.o := (.* )(\S+\.c) *(;|$)")


def main():
    objects, kernel, tree, top = (pathlib.Path(p).resolve() for p in sys.argv[1:])
    entries = []
    for cmd in sorted(objects.glob(".*.o.cmd")):
        match = LINE.match(cmd.read_text().splitlines()[0])
        if not match or match.group(2).endswith(".mod.c"):
            continue
        source = pathlib.Path(match.group(2))
        ours = top / source.relative_to(tree) if source.is_relative_to(tree) else source
        source = ours if ours.exists() else source
        entries.append(
            {
                "directory": str(kernel),
                "command": match.group(1) + str(source),
                "file": str(source),
            }
        )
    if not entries:
        sys.exit("rdma-align: no compiled objects found, run 'make' first")
    json.dump(entries, sys.stdout, indent=2)
    print()


main()
