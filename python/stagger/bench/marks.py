"""What each kernel of a block takes within it: stamps at its boundaries, in both passes.

A boundary is a function of autograd that changes nothing: called forward it ends the region before
it, and called backward the one after it, since a backward pass comes from there.
"""

import statistics

import torch

from .transformer import NORMS


class _Boundary(torch.autograd.Function):

    @staticmethod
    def forward(ctx, marks, before, after, *tensors):
        ctx.marks, ctx.after = marks, after
        marks.end("forward", before)
        return tuple(each.view_as(each) for each in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        ctx.marks.end("backward", ctx.after)
        return (None, None, None, *gradients)


class Marks:
    """Stamps of one forward and one backward pass, by a clock."""

    def __init__(self, clock):
        self._clock = clock
        self._ends = []  #: (pass, region that ends, stamp), in the order of the device
        self._begin = clock.stamp()

    def between(self, before, after, *tensors):
        return _Boundary.apply(self, before, after, *tensors)

    def end(self, which, region):
        self._ends.append((which, region, self._clock.stamp()))

    def sums(self):
        """ms by (region, pass), in the order in which regions first end. The device has settled."""
        found, last = {}, self._begin
        for which, region, stamp in self._ends:
            key = region, which
            found[key] = found.get(key, 0.0) + self._clock.between_ms(last, stamp)
            last = stamp
        return found


def once(block, x, d_out, attend, clock):
    """ms by (region, pass) of one call, enqueued behind a rest in which the host gets ahead."""
    clock.rest(1.0)
    marks = Marks(clock)
    out = block(x, attend, marks.between)
    marks.end("forward", NORMS)
    out.backward(d_out)
    marks.end("backward", NORMS)
    return marks


def medians(calls):
    """Regions as a document has them: the median of several calls' sums."""
    return [{"name": region, "pass": which,
             "ms": statistics.median(sums[region, which] for sums in calls)}
            for region, which in calls[0]]
