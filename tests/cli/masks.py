"""Masks as other libraries write them, made by numpy from the token mask: files for masks.sh."""

import json
import struct
import sys

import numpy as np

folder = sys.argv[1]


def tiles(mask, bq, bk, ragged):
    """Kinds of tiles by (q, kv): 0, 1 partial, 2 full; `flex` pads with zeros."""
    m, n = -(-mask.shape[0] // bq), -(-mask.shape[1] // bk)
    kinds = np.zeros((m, n), np.int32)
    for q in range(m):
        for kv in range(n):
            part = mask[q * bq:(q + 1) * bq, kv * bk:(kv + 1) * bk]
            size = bq * bk if ragged == "flex" else part.size
            kinds[q, kv] = 2 if part.sum() == size else 1 if part.any() else 0
    return kinds


def ordered(live):
    """Counts and indices of a 0/1 array, as create_block_mask makes them."""
    counts = live.sum(-1).astype(np.int32)
    ids = np.argsort(-live.astype(np.int32), axis=-1, kind="stable").astype(np.int32)
    return counts, ids


def flex(mask, bq, bk):
    return flex_by_head([[mask]], bq, bk)


def flex_by_head(masks, bq, bk):
    """Masks of the heads of batches."""
    kinds = np.array([[tiles(mask, bq, bk, "flex") for mask in heads] for heads in masks])
    fields = {"seq_lengths": np.array(masks[0][0].shape), "BLOCK_SIZE": np.array([bq, bk])}
    for prefix, kind in (("", 1), ("full_", 2)):
        live = kinds == kind
        for side, lists in (("kv", live), ("q", live.transpose(0, 1, 3, 2))):
            counts, ids = ordered(lists)
            fields[f"{prefix}{side}_num_blocks"], fields[f"{prefix}{side}_indices"] = counts, ids
    return fields


def write_order(kinds, spt):
    """FlashAttention-4's compute_dq_write_order for every (q, kv): its rank."""
    dense = kinds > 0
    rank = np.cumsum(dense, axis=1) - dense
    return dense.sum(1, keepdims=True) - 1 - rank if spt else rank


def fa4(mask, bq, bk, spt):
    kinds = tiles(mask, bq, bk, "in-bounds")
    rank = write_order(kinds, spt)
    fields = {"backward.spt": np.array(spt), "backward.block_size": np.array([bq, bk]),
              "forward.block_size": np.array([bq, bk])}
    for name, kind, order in (("mask", 1, ""), ("full", 2, "_full")):
        counts, ids = ordered((kinds == kind)[None, None])
        fields[f"forward.{name}_block_cnt"], fields[f"forward.{name}_block_idx"] = counts, ids
        counts, ids = ordered((kinds == kind).T[None, None])
        fields[f"backward.{name}_block_cnt"], fields[f"backward.{name}_block_idx"] = counts, ids
        fields[f"backward.dq_write_order{order}"] = np.stack(
            [rank[ids[0, 0, n], n] for n in range(kinds.shape[1])])[None, None].astype(np.int32)
    return fields


def safetensors(path, fields):
    header, data = {}, b""
    for name, array in fields.items():
        array = np.ascontiguousarray(array)
        kind = {"int32": "I32", "int64": "I64", "bool": "BOOL"}[array.dtype.name]
        header[name] = {"dtype": kind, "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)


i, j = np.arange(16)[:, None], np.arange(16)[None, :]
w8 = (j <= i) & (j >= i - 5)
np.savez(f"{folder}/flex.npz", **flex(w8, 2, 2))
np.savez_compressed(f"{folder}/flex_packed.npz", **flex(w8, 2, 2))
fortran = {k: np.asfortranarray(v) for k, v in flex(w8, 2, 2).items()}
np.savez(f"{folder}/flex_fortran.npz", **{k: v.astype(">i8") for k, v in fortran.items()})
safetensors(f"{folder}/flex.safetensors", flex(w8, 2, 2))
causal16 = j <= i
np.savez(f"{folder}/by_head.npz", **flex_by_head([[w8, causal16], [causal16, w8]], 2, 2))
np.savez(f"{folder}/by_batch.npz", **flex_by_head([[w8], [causal16]], 2, 2))
fields = [fa4(mask, 2, 2, False) for mask in (w8, causal16)]
np.savez(f"{folder}/fa4_by_head.npz", **{
    name: np.concatenate([np.pad(each[name], [(0, 0)] * 3 + [(0, 8 - each[name].shape[-1])])
                          if each[name].ndim == 4 else each[name] for each in fields], axis=1)
    if fields[0][name].ndim > 2 else fields[0][name] for name in fields[0]})
end = np.full((1, 2, 16, 1), 16, np.int32)
end[0, 0, :, 0] = np.minimum(np.arange(16) + 6, 16)
np.savez(f"{folder}/flashmask_by_head.npz", startend_row_indices=end, causal=np.array(True))
np.savez(f"{folder}/dense_by_head.npz", block_mask=np.stack(
    [np.tril(np.ones((4, 4), bool)), np.ones((4, 4), bool), np.eye(4, dtype=bool)])[None])
i, j = np.arange(13)[:, None], np.arange(11)[None, :]
np.savez(f"{folder}/ragged_flex.npz", **flex(j <= i, 4, 3))
np.savez(f"{folder}/ragged_fa4.npz", **fa4(j <= i, 4, 3, False))
np.savez(f"{folder}/fa4.npz", **fa4(w8, 2, 2, False))
np.savez(f"{folder}/fa4_spt.npz", **fa4(w8, 2, 2, True))
wrong = fa4(w8, 2, 2, True)
wrong["backward.spt"] = np.array(False)
np.savez(f"{folder}/fa4_wrong.npz", **wrong)
np.savez(f"{folder}/pickled.npz", kv_num_blocks=np.array([None]), kv_indices=np.zeros((1, 1)))
np.save(f"{folder}/dense.npy", np.tril(np.ones((4, 8), bool), 3))
np.save(f"{folder}/locks.npy", np.array([[0, -1], [1, 0]]))
np.savez(f"{folder}/heads.npz", kv_num_blocks=np.ones((1, 2, 2), np.int32),
         kv_indices=np.array([[[[0], [1]], [[1], [0]]]], np.int32))


# What was written by the command, given back as tokens or tiles and held against the mask.
def check(path, mask, bq, bk):
    fields = dict(np.load(path))
    if "startend_row_indices" in fields:
        columns = fields["startend_row_indices"][0, 0]
        rows = np.arange(mask.shape[0])[:, None]
        lk = mask.shape[1]
        causal = bool(fields["causal"])
        c = columns.T[:, None, :]
        if causal:
            end = c[1] if len(c) == 2 else mask.shape[0]
            dead = ((rows >= c[0]) & (rows < end)) | (
                rows < np.arange(lk)[None, :] - (lk - mask.shape[0]))
        elif len(c) == 2:
            dead = (rows >= c[0]) | (rows < c[1])
        else:
            dead = ((rows >= c[0]) & (rows < c[1])) | ((rows >= c[2]) & (rows < c[3]))
        assert ((~dead) == mask).all(), path
    elif "q_ranges" in fields:
        seen = np.zeros(mask.shape, int)
        for (q0, q1), (k0, k1), kind in zip(fields["q_ranges"], fields["k_ranges"],
                                            fields["attn_type_map"]):
            a, b = np.arange(q1 - q0)[:, None], np.arange(k1 - k0)[None, :]
            band = np.ones((q1 - q0, k1 - k0), bool)
            if kind & 1:
                band &= b <= a + (k1 - k0) - (q1 - q0)
            if kind & 2:
                band &= b >= a
            seen[q0:q1, k0:k1] += band
        assert (seen == mask).all(), path
    elif "indptr" in fields:
        seen = np.zeros(mask.shape, bool)
        for q in range(len(fields["indptr"]) - 1):
            for at in range(fields["indptr"][q], fields["indptr"][q + 1]):
                kv = fields["indices"][at]
                own = fields["mask"][at] if "mask" in fields else True
                seen[q * bq:(q + 1) * bq, kv * bk:(kv + 1) * bk] = own
        assert (seen == mask).all(), path
    elif "kv_indices" in fields:
        for name, value in flex(mask, bq, bk).items():
            assert (fields[name] == value).all(), (path, name)
    else:
        expected = fa4(mask, bq, bk, False)
        for name in ("mask", "full"):
            for side in ("forward", "backward"):
                counts = expected[f"{side}.{name}_block_cnt"]
                assert (fields[f"{side}.{name}_block_cnt"] == counts).all(), (path, name)
                for row, count in enumerate(counts[0, 0]):
                    assert set(fields[f"{side}.{name}_block_idx"][0, 0, row][:count]) == set(
                        expected[f"{side}.{name}_block_idx"][0, 0, row][:count]), (path, name)
        kinds = tiles(mask, bq, bk, "in-bounds")
        if "backward.dq_write_order" in fields:
            rank = write_order(kinds, bool(fields["backward.spt"]))
            for name, order in (("mask", ""), ("full", "_full")):
                for kv in range(kinds.shape[1]):
                    count = fields[f"backward.{name}_block_cnt"][0, 0, kv]
                    ids = fields[f"backward.{name}_block_idx"][0, 0, kv][:count]
                    locks = fields[f"backward.dq_write_order{order}"][0, 0, kv][:count]
                    assert (locks == rank[ids, kv]).all(), (path, kv)


if len(sys.argv) > 2:
    i, j = np.arange(16)[:, None], np.arange(16)[None, :]
    masks = {"w8": w8, "sinks": ((j >= i - 3) | (j < 2)) & (j <= i), "full": np.ones((16, 16), bool)}
    for path in sys.argv[2:]:
        check(path, masks[path.rsplit("/", 1)[1].split(".")[0]], 2, 2)
    print(len(sys.argv) - 2, "checked")
