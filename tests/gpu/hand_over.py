#!/usr/bin/env python3
"""What the hopper kernel's hand-over of a dQ tile must not lack, checked in its PTX.

A fence that is missing can go unnoticed for ever on the hardware at hand: the bits stay right until
another chip, or another day. So this looks at the code instead: for each rule, on every path of the
kernel from one kind of instruction to another there must be a third. Every instance of every third is
then taken away in turn, and a rule must notice.

    hand_over.py KERNELS.ptx...
"""

import functools
import re
import sys

KERNELS = 60  # five shapes, two formats; alone, with bits of masks, with dropout; each by parts in order

ASK = r"cp\.(?:reduce\.)?async\.bulk\.global\.shared"  # dQ's additions, and rank 0's store
STORE = r"cp\.async\.bulk\.tensor\.\dd\.global\.shared"  # dK and dV
ARRIVE = r"mbarrier\.arrive\."
READ_1 = r"cp\.async\.bulk\.wait_group\.read 1;"  # the first half of dQ
READ_0 = r"cp\.async\.bulk\.wait_group\.read 0;"
COMMIT = r"cp\.async\.bulk\.commit_group;"
SHARED_FENCE = r"fence\.proxy\.async\.shared::cta;"
GLOBAL_FENCE = r"fence\.proxy\.async\.global;"

# From, to, what must be between, and why. From a pair: from the second that comes after the first.
RULES = [
    (r"ld\.acquire\.gpu", ASK, GLOBAL_FENCE,
     "what the rank before released is visible to bulk operations by a proxy fence only"),
    (ASK, r"red\.release\.gpu", r"cp\.async\.bulk\.wait_group 0;",
     "a turn is passed on when the additions are performed, not when they are asked for or read"),
    (ASK, r"mbarrier\.try_wait", COMMIT, "each half of dQ is a group of its own"),
    (ASK, READ_1, COMMIT, "a wait is for groups that are committed"),
    (STORE, READ_0, COMMIT, "a wait is for groups that are committed"),
    (ASK, ARRIVE, READ_1, "the first half of dQ's place is free when it has been read"),
    ((READ_1, ARRIVE), ARRIVE, READ_0, "the second half of dQ's place is free when it has been read"),
    (r"st\.shared\.v4\.f32", ARRIVE, SHARED_FENCE,
     "the copy engine sees dQ in shared memory after a proxy fence"),
    (r"stmatrix\.", ARRIVE, SHARED_FENCE, "products see dS in shared memory after a proxy fence"),
    (r"stmatrix\.", STORE, SHARED_FENCE, "the copy engine sees dK and dV after a proxy fence"),
    (STORE, ARRIVE, READ_0,
     "the place of K and dS is free when dK and dV have been read"),
    (r"mbarrier\.init\.", r"bar\.sync\s+0;", r"fence\.mbarrier_init\.",
     "copies arrive on barriers that are initialised for them"),
]


# Where parts of dK and dV are added in order, by all lanes of a warp, a lane acquires and releases.
ADD = r"red\.relaxed\.gpu\.global\.add\.v4\.f32"
LOAD = r"ld\.relaxed\.gpu\.global\.v4\.f32"
ANY = rf"(?:{ADD}|{LOAD}|st\.global\.v4\.f32)"
WARP = r"bar\.warp\.sync 0xffffffff;"
ORDERED_RULES = [
    (r"ld\.acquire\.gpu", ANY, WARP, "what a lane acquires is its warp's after a barrier of the warp"),
    (ANY, r"red\.release\.gpu", WARP,
     "a turn is passed on when all lanes have added, not when one has"),
    (ADD, r"atom\.acq_rel\.gpu", WARP, "a part is counted when all lanes have added"),
    (r"atom\.acq_rel\.gpu", LOAD, WARP, "who counts last takes what all have added"),
]


class Kernel:
    """Instructions, which may follow which, and the rules for them."""

    def __init__(self, text, extras):
        self.rules = RULES + (ORDERED_RULES if extras >= 3 else [])
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

    @functools.cache
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

    @functools.cache
    def starts(self, begins):
        if isinstance(begins, str):
            return self.places(begins)
        seconds = set(self.places(begins[1]))
        return sorted({self.path(first, seconds, set()) for first in self.places(begins[0])} -
                      {None})

    def fault(self, rule, without=None):
        """Where the rule does not hold; `without` one of its third kind."""
        begins, ends, between, _ = rule
        ends = set(self.places(ends))
        stops = set(self.places(between)) - {without}
        for start in self.starts(begins):
            end = self.path(start, ends, stops)
            if end is not None:
                return f"from `{self.lines[start]}` to `{self.lines[end]}`"
        return None


def faults(name, kernel):
    for rule in kernel.rules:
        begins, ends, _, why = rule
        if not kernel.starts(begins) or not kernel.places(ends):
            yield f"{name}: nothing to check where {why}"
            continue
        fault = kernel.fault(rule)
        if fault:
            yield f"{name}: {why}; not so {fault}"


def unnoticed(name, kernel):
    """Instances that could be taken away."""
    for place in sorted({place for rule in kernel.rules
                         for place in kernel.places(rule[2])}):
        line = kernel.lines[place]
        if not any(re.search(rule[2], line) and kernel.fault(rule, without=place)
                   for rule in kernel.rules):
            yield f"{name}: nobody would notice without `{line}` in line {place}"


def kernels_of(ptx):
    """By name: the kernel at all its shapes."""
    kernels = {}
    for text in re.split(r"^.*\.entry\s+(?=\w)", ptx, flags=re.MULTILINE)[1:]:
        shape = re.match(r"\w*6hopper8backwardI\d+(\w+?)Li(\d+)ELi(\d+)ELNS\w*?ExtrasE(\d)E", text)
        if shape:
            kernels["hopper<{}, {}, {}, {}>".format(*shape.groups())] = Kernel(text, int(shape[4]))
    return kernels


def main():
    kernels = {}
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as file:
            kernels |= kernels_of(file.read())
    found = [] if len(kernels) == KERNELS else [f"{len(kernels)} kernels, not {KERNELS}"]
    for name, kernel in kernels.items():
        wrong = list(faults(name, kernel))
        found += wrong or list(unnoticed(name, kernel))
    print("\n".join(found) if found else f"{len(RULES)} rules, where parts are added "
          f"in order {len(RULES + ORDERED_RULES)}, hold in {len(kernels)} kernels")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
