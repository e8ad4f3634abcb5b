"""The logsumexp for whoever asks attention for it."""

import torch

from .. import errors


class _Refused(torch.autograd.Function):
    """A tensor as it is, whose gradient is refused."""

    @staticmethod
    def forward(ctx, lse, out):
        ctx.set_materialize_grads(False)
        return lse.view_as(lse)

    @staticmethod
    def backward(ctx, d_lse):
        if d_lse is not None:
            raise errors.Unsupported("the logsumexp of attention has no gradient, and a loss depends on "
                                     "it: take lse.detach() where it is to be a constant")
        return None, None


def refusing(lse, out):
    """lse, such that a loss which depends on it raises Unsupported where out has a gradient, in place
    of leaving its part out."""
    return _Refused.apply(lse, out)
