"""Tensors that say they are on a GPU, with their numbers on the CPU."""

import torch


class OnGpu(torch.Tensor):
    is_cuda = True

    def get_device(self):
        return 0


def on_gpu(tensor):
    return tensor.as_subclass(OnGpu)
