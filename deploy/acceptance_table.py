#!/usr/bin/env python3
"""Prints tokens, steps and acceptance by depth from files that `tandem generate --json` wrote.

usage: acceptance_table.py REPLY.json ...     (a file's name without .json names its row)
"""
import json
import pathlib
import sys
from itertools import zip_longest


def add(a, b):
    return [x + y for x, y in zip_longest(a, b, fillvalue=0)]


def row(name, usage):
    tokens, steps = usage["generated_tokens"], usage["rounds"]
    shares = "  ".join(
        f"{100 * accepted / drafted:5.1f} %"
        for drafted, accepted in zip(usage["drafted_by_depth"], usage["accepted_by_depth"])
        if drafted
    )
    return f"{name:<12}{tokens:>7}{steps:>7}{tokens / max(steps, 1):>13.2f}   {shares}"


def main(paths):
    total = {"generated_tokens": 0, "rounds": 0, "drafted_by_depth": [], "accepted_by_depth": []}
    print(f"{'task':<12}{'tokens':>7}{'steps':>7}{'tokens/step':>13}   accepted at depth 1, 2, ...")
    for path in map(pathlib.Path, paths):
        usage = json.loads(path.read_text(encoding="utf-8"))["usage"]
        print(row(path.stem, usage))
        for key, value in total.items():
            total[key] = add(value, usage[key]) if isinstance(value, list) else value + usage[key]
    print(row("all", total))


if __name__ == "__main__":
    main(sys.argv[1:])
