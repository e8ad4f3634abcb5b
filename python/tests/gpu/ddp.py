"""Data parallel training beside NCCL, twice: every rank's weights have the same bits in both runs, and
no step waits for ever. Prints a line, and exits with 0, 1, or 77 where there are not two GPUs.

    python3 python/tests/gpu/ddp.py [STEPS]

Each run is processes of its own, one a GPU; the whole is to be run under a deadline.
"""

import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

RANKS = 2


def rank(number, ranks, steps, folder):
    """One process: a model of two attention layers, gradients averaged by NCCL in small buckets, so
    that collectives and attention meet."""
    import torch
    from torch import nn

    import stagger
    from stagger import debug
    torch.cuda.set_device(number)
    torch.distributed.init_process_group("nccl", rank=number, world_size=ranks,
                                         init_method=f"file://{folder}/meet")

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(1024, 3072, bias=False), nn.Linear(1024, 1024, bias=False)

        def forward(self, x):
            q, k, v = self.qkv(x).unflatten(-1, (24, 128)).split(8, 2)
            return x + self.out(stagger.attention(q, k, v).flatten(2))

    torch.manual_seed(1)
    model = nn.Sequential(Layer(), Layer(), Layer(), Layer()).cuda().to(torch.bfloat16)
    model = nn.parallel.DistributedDataParallel(model, device_ids=[number], bucket_cap_mb=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    with debug.Recorder(f"{folder}/rank{number}.jsonl") as record:
        for step in range(steps):
            torch.manual_seed(1000 * step + number)
            model(torch.randn(2, 2048, 1024, device="cuda", dtype=torch.bfloat16)
                  ).float().square().mean().backward()
            optimizer.step()
            if step % 10 == 9 or step + 1 == steps:
                record(step, debug.tensors_of(model))
            optimizer.zero_grad()
    stagger.check(sync=True)
    torch.distributed.destroy_process_group()


def main():
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or torch.cuda.device_count() < RANKS or \
            torch.cuda.get_device_capability()[0] != 9:
        print(f"SKIPPED: no torch with {RANKS} GPUs of compute capability 9.0")
        return 77
    from stagger import debug
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    folders = [tempfile.mkdtemp() for _ in range(2)]
    for folder in folders:
        torch.multiprocessing.spawn(rank, (RANKS, steps, folder), RANKS)
    found = [debug.compare(*(f"{folder}/rank{number}.jsonl" for folder in folders))
             for number in range(RANKS)]
    passed = all(each.steps and not each for each in found)
    print(f"{'ok' if passed else 'FAILED':<7}ddp: {RANKS} ranks, {steps} steps, twice: " +
          "; ".join(map(str, found)))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
