#!/usr/bin/env python3
"""What the hopper kernel's hand-over of a dQ tile must not lack, checked in its PTX.

A fence that is missing can go unnoticed for ever on the hardware at hand: the bits stay right until
another chip, or another day. So this looks at the code instead: for each rule, on every path of the
kernel from one kind of instruction to another there must be a third. Every instance of that third is
then taken away in turn, and the rule must notice, or it would hold nothing.

    hand_over.py KERNEL.ptx
"""

import re
import sys

ASK = r"cp\.(?:reduce\.)?async\.bulk\.global\.shared"  # dQ's additions, and rank 0's store
STORE = r"cp\.async\.bulk\.tensor\.\dd\.global\.shared"  # dK and dV
ARRIVE = r"mbarrier\.arrive\."
FENCE = r"fence\.proxy\.async;"

# From, to, what must be between, and why.
RULES = [
    (r"ld\.acquire\.gpu", ASK, FENCE,
     "what the rank before released is visible to bulk operations by a proxy fence only"),
    (ASK, r"red\.release\.gpu", r"cp\.async\.bulk\.wait_group 0;",
     "a turn is passed on when the additions are performed, not when they are asked for or read"),
    (ASK, r"cp\.async\.bulk\.wait_group 0;", r"cp\.async\.bulk\.commit_group;",
     "a wait is for groups that are committed"),
    (ASK, ARRIVE, r"cp\.async\.bulk\.wait_group(?:\.read)? [01];",
     "dQ's place is free when it has been read"),
    (r"st\.shared\.v4\.f32", ARRIVE, FENCE,
     "the copy engine sees dQ in shared memory after a proxy fence"),
    (r"stmatrix\.", ARRIVE, FENCE, "products see dS in shared memory after a proxy fence"),
    (r"stmatrix\.", STORE, FENCE, "the copy engine sees dK and dV after a proxy fence"),
    (STORE, ARRIVE, r"cp\.async\.bulk\.wait_group\.read 0;",
     "the place of K and dS is free when dK and dV have been read"),
    (r"mbarrier\.init\.", r"bar\.sync\s+0;", r"fence\.mbarrier_init\.",
     "copies arrive on barriers that are initialised for them"),
]


class Kernel:
    """Instructions, and which may follow which."""

    def __init__(self, text):
        self.lines = [line.strip() for line in text.splitlines()]
        labels = {line[:-1]: number for number, line in enumerate(self.lines)
                  if re.fullmatch(r"\$?\w+:", line)}
        self.after = []
        for number, line in enumerate(self.lines):
            next_one = [number + 1] if number + 1 < len(self.lines) else []
            jump = re.match(r"(@!?%p\d+\s+)?bra(?:\.uni)?\s+(\$?\w+);", line)
            if "brx." in line:
                raise SystemExit(f"a jump by index is not understood: {line}")
            if jump:
                next_one = [labels[jump[2]]] + (next_one if jump[1] else [])
            elif re.match(r"(?:ret|exit|trap);", line):
                next_one = []
            self.after.append(next_one)

    def places(self, pattern):
        return [number for number, line in enumerate(self.lines) if re.search(pattern, line)]

    def path(self, start, ends, stops):
        """Whether one leads from `start` to one of `ends` past none of `stops`."""
        reached = set()
        ahead = list(self.after[start])
        while ahead:
            number = ahead.pop()
            if number in reached or number in stops:
                continue
            if number in ends:
                return number
            reached.add(number)
            ahead += self.after[number]
        return None

    def fault(self, rule, without=None):
        """Where the rule does not hold; `without` one of its third kind."""
        begins, ends, between, _ = rule
        ends = set(self.places(ends))
        stops = set(self.places(between)) - {without}
        for start in self.places(begins):
            end = self.path(start, ends, stops)
            if end is not None:
                return f"from `{self.lines[start]}` to `{self.lines[end]}`"
        return None


def faults(name, kernel):
    for rule in RULES:
        begins, ends, between, why = rule
        if not kernel.places(begins) or not kernel.places(ends):
            yield f"{name}: nothing to check where {why}"
            continue
        fault = kernel.fault(rule)
        if fault:
            yield f"{name}: {why}; not so {fault}"
        elif not any(kernel.fault(rule, without=place) for place in kernel.places(between)):
            yield f"{name}: nobody would notice if it were not so that {why}"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        entries = re.split(r"^.*\.entry\s+(?=\w)", file.read(), flags=re.MULTILINE)[1:]
    kernels = {}
    for text in entries:
        shape = re.match(r"\w*6hopperI\d+(\w+?)Li(\d+)ELi(\d+)E", text)
        if shape:
            kernels["hopper<{}, {}, {}>".format(*shape.groups())] = Kernel(text)
    found = [fault for name, kernel in kernels.items() for fault in faults(name, kernel)]
    print("\n".join(found) if found else f"{len(RULES)} rules hold in {len(kernels)} kernels")
    return 1 if found or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())
