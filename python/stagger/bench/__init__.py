"""python -m stagger bench: backward passes side by side, in one process and on the same tensors.

cases       which problems, and their FLOPs
opponents   whose backward passes, and what each does not do
protocol    rounds in turn, in a row and rested, and what is made of their times
device      CUDA's clock, and the clock rate of the GPU meanwhile
run         all of it, into a `stagger.bench/2` document
table       the document as Markdown

Whole transformer blocks (scripts/bench_block.py), by the same protocol:

transformer  the block in torch
marks        what each kernel takes within it
block        all of it, into a `stagger.block-bench/1` document
prediction   what `stagger block` says of that document's blocks
"""
