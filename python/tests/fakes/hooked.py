"""What tests of hooks stand on: attention on the CPU in place of the kernel's."""

import unittest
from unittest import mock

try:
    import torch
except ImportError:
    torch = None

import stagger

if torch:
    from tests.fakes import attention


def randn(*shape):
    return torch.randn(shape, dtype=torch.float32, requires_grad=True)


@unittest.skipUnless(torch, "no torch")
class Hooked(unittest.TestCase):
    """With attention on the CPU in place of the kernel's."""

    def setUp(self):
        torch.manual_seed(7)
        self.fake = attention.Attention()
        patch = mock.patch.dict(vars(stagger), attention=self.fake.attention,
                                attention_backward=self.fake.attention_backward)
        patch.start()
        self.addCleanup(patch.stop)

    @property
    def last(self):
        return self.fake.calls[-1]

    def expect_dense(self, out, q, k, v, words, scale=None, axes=(0, 1, 2, 3)):
        """out and its gradients are those of dense attention; `axes` are those of batch, head, row
        and dim, of out, q, k and v alike."""
        moved = [each.permute(axes) for each in (q, k, v)]
        seen = attention.visible(words, moved[0].shape[2], moved[1].shape[2])
        wanted = attention.dense(*moved, seen, scale)
        torch.testing.assert_close(out.permute(axes), wanted)
        d_out = torch.randn(wanted.shape)
        for ours, right in zip(
                torch.autograd.grad(out.permute(axes), (q, k, v), d_out, retain_graph=True),
                torch.autograd.grad(wanted, (q, k, v), d_out)):
            torch.testing.assert_close(ours, right)
