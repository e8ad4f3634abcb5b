"""stagger.attention and attention_backward on the CPU: attention in double precision under a mask
that is spelled out, by torch's autograd. They keep what they were called with."""

import torch

AXES = {"bshd": (0, 2, 1, 3), "bhsd": (0, 1, 2, 3), "sbhd": (1, 2, 0, 3)}  # to (B, H, S, D)


def visible(words, queries, keys):
    """Which keys queries see, bool (queries, keys), from a mask's words: written apart from the
    package's, pair by pair."""
    kind, _, rest = words.partition(":")
    given = dict(pair.split("=") for pair in rest.split(",") if pair)
    seen = torch.zeros(queries, keys, dtype=torch.bool)
    for query in range(queries):
        at = query + keys - queries
        for key in range(keys):
            if kind == "causal":
                sees = key <= at
            elif kind == "sliding":
                left, right = int(given.get("left", -1)), int(given.get("right", -1))
                sees = (left < 0 or key >= at - left) and (right < 0 or key <= at + right)
            elif kind == "document":
                ends = [sum(map(int, given["lengths"].split("+")[:n + 1]))
                        for n in range(len(given["lengths"].split("+")))]
                place = [next(n for n, end in enumerate(ends) if t < end) for t in (query, key)]
                sees = place[0] == place[1] and (given.get("causal") != "true" or key <= query)
            else:
                sees = kind == "full"
            seen[query, key] = sees
    return seen


def dense(q, k, v, seen, scale=None):
    """Attention on (B, H, S, D) in double precision, heads shared as usual."""
    group = q.shape[1] // k.shape[1]
    k, v = (each.double().repeat_interleave(group, 1) for each in (k, v))
    scores = q.double() @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    p = torch.softmax(scores.masked_fill(~seen, -float("inf")), -1)
    return (p @ v).to(q.dtype)


class Attention:
    """Both functions; `calls` has the arguments by name of every call."""

    def __init__(self):
        self.calls = []

    def attention(self, q, k, v, *, mask="causal", schedule="auto", scale=None, layout="bshd",
                  sm_margin=None, forward="auto", invariant=False, return_lse=False):
        self.calls.append({"mask": mask.text, "scale": scale, "layout": layout,
                           "schedule": schedule, "sm_margin": sm_margin, "invariant": invariant,
                           "forward": forward, "shape": tuple(q.shape)})
        axes = AXES[layout]
        q, k, v = (each.permute(axes) for each in (q, k, v))
        out = dense(q, k, v, visible(mask.text, q.shape[2], k.shape[2]), scale)
        return out.permute([axes.index(axis) for axis in range(4)])

    def attention_backward(self, d_out, q, k, v, out, lse, *, mask="causal", schedule="auto",
                           scale=None, layout="bshd", sm_margin=None, invariant=False):
        leaves = [each.detach().clone().requires_grad_() for each in (q, k, v)]
        with torch.enable_grad():
            again = self.attention(*leaves, mask=mask, schedule=schedule, scale=scale,
                                   layout=layout, sm_margin=sm_margin, invariant=invariant)
        return torch.autograd.grad(again, leaves, d_out)
