"""Writes an RWKV-7 checkpoint of one layer as torch.save would, with the standard library only.

usage: write_tiny_pth.py OUT.pth

Every value is fp32. Tensor number n (in the order of the file) holds (n + i) / 64 at element i.
"""

import collections
import pickle
import struct
import sys
import types
import zipfile

C, V, RANK, HEAD = 64, 5, 4, 64


def named(module, name):
    """A stand-in that pickles as a reference to module.name."""
    function = types.FunctionType((lambda: None).__code__, {}, name)
    function.__module__ = module
    function.__qualname__ = name
    if module not in sys.modules:
        sys.modules[module] = types.ModuleType(module)
    setattr(sys.modules[module], name, function)
    return function


named("torch", "FloatStorage")
REBUILD = named("torch._utils", "_rebuild_tensor_v2")


class Storage:
    def __init__(self, key, count):
        self.key, self.count = key, count


class Tensor:
    def __init__(self, storage, shape):
        stride = [1] * len(shape)
        for axis in range(len(shape) - 1, 0, -1):
            stride[axis - 1] = stride[axis] * shape[axis]
        self.arguments = (storage, 0, tuple(shape), tuple(stride), False, collections.OrderedDict())

    def __reduce__(self):
        return REBUILD, self.arguments


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        if isinstance(obj, Storage):
            return ("storage", sys.modules["torch"].FloatStorage, obj.key, "cpu", obj.count)
        return None


def shapes():
    yield "emb.weight", (V, C)
    for name in ("ln0", "ln1", "ln2", "att.ln_x"):
        yield f"blocks.0.{name}.weight", (C,)
        yield f"blocks.0.{name}.bias", (C,)
    for name in ("x_r", "x_w", "x_k", "x_v", "x_a", "x_g", "k_k", "k_a", "w0", "a0"):
        yield f"blocks.0.att.{name}", (1, 1, C)
    yield "blocks.0.att.r_k", (C // HEAD, HEAD)
    for letter in "wag":
        yield f"blocks.0.att.{letter}1", (C, RANK)
        yield f"blocks.0.att.{letter}2", (RANK, C)
    for name in ("receptance", "key", "value", "output"):
        yield f"blocks.0.att.{name}.weight", (C, C)
    yield "blocks.0.ffn.x_k", (1, 1, C)
    yield "blocks.0.ffn.key.weight", (4 * C, C)
    yield "blocks.0.ffn.value.weight", (C, 4 * C)
    yield "ln_out.weight", (C,)
    yield "ln_out.bias", (C,)
    yield "head.weight", (V, C)


def main(path):
    tensors, storages = collections.OrderedDict(), []
    for number, (name, shape) in enumerate(shapes()):
        count = 1
        for axis in shape:
            count *= axis
        values = [(number + i) / 64 for i in range(count)]
        storages.append(struct.pack(f"<{count}f", *values))
        tensors[name] = Tensor(Storage(str(number), count), shape)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        with archive.open("tiny/data.pkl", "w", force_zip64=True) as out:
            Pickler(out, protocol=2).dump(tensors)
        archive.writestr("tiny/byteorder", "little")
        for number, data in enumerate(storages):
            archive.writestr(f"tiny/data/{number}", data)
        archive.writestr("tiny/version", "3\n")


if __name__ == "__main__":
    main(sys.argv[1])
