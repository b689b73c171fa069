"""Quantises the large matrices of an RWKV-7 checkpoint to FP8 as torch.save would store them, with the standard library
only.

usage: write_quantised_pth.py IN.pth OUT.pth

One scale per output: scale[n] = max_k |W[n, k]| / 448 and code = E4M3 of W / scale, both in fp32, rounded to nearest
even. FP8 tensors go through _rebuild_tensor_v3; meta and quant_meta are dictionaries of plain values.
"""

import array
import bisect
import collections
import math
import pickle
import re
import struct
import sys
import types
import zipfile

MATRIX = re.compile(r"blocks\.\d+\.(att\.(receptance|key|value|output)|ffn\.(key|value))\.weight$")


def named(module, name):
    """A stand-in that pickles as a reference to module.name."""
    function = types.FunctionType((lambda: None).__code__, {}, name)
    function.__module__ = module
    function.__qualname__ = name
    if module not in sys.modules:
        sys.modules[module] = types.ModuleType(module)
    setattr(sys.modules[module], name, function)
    return function


REBUILD_V2 = named("torch._utils", "_rebuild_tensor_v2")
REBUILD_V3 = named("torch._utils", "_rebuild_tensor_v3")
BF16, FP32 = named("torch", "BFloat16Storage"), named("torch", "FloatStorage")
UNTYPED = named("torch.storage", "UntypedStorage")
E4M3 = named("torch", "float8_e4m3fn")


class Storage:
    def __init__(self, kind, key, count):
        self.kind, self.key, self.count = kind, key, count


class Tensor:
    """A contiguous tensor and its bytes."""

    def __init__(self, kind, shape, data):
        self.kind, self.shape, self.data, self.storage = kind, tuple(shape), data, None

    def __reduce__(self):
        stride = [1] * len(self.shape)
        for axis in range(len(self.shape) - 1, 0, -1):
            stride[axis - 1] = stride[axis] * self.shape[axis]
        common = (self.storage, 0, self.shape, tuple(stride), False, collections.OrderedDict())
        return (REBUILD_V3, (*common, E4M3)) if self.kind is UNTYPED else (REBUILD_V2, common)


class Reader(pickle.Unpickler):
    """Reads bf16 tensors."""

    def __init__(self, file, archive, root):
        super().__init__(file)
        self.archive, self.root = archive, root

    def find_class(self, module, name):
        return {"OrderedDict": collections.OrderedDict, "BFloat16Storage": BF16,
                "_rebuild_tensor_v2": lambda data, offset, shape, *_: Tensor(BF16, shape, data)}[name]

    def persistent_load(self, pid):
        return self.archive.read(f"{self.root}/data/{pid[2]}")


class Writer(pickle.Pickler):
    def persistent_id(self, obj):
        return ("storage", obj.kind, obj.key, "cpu", obj.count) if isinstance(obj, Storage) else None


def fp32(values):
    """The values rounded to fp32."""
    return array.array("f", values)


# The values of the codes 0 ... 126, and the middles between neighbours.
VALUES = [m / 512 if e == 0 else (8 + m) * 2.0 ** (e - 10) for e in range(16) for m in range(8)][:127]
MIDDLES = [(low + high) / 2 for low, high in zip(VALUES, VALUES[1:])]


def code_of(value):
    magnitude = abs(value)
    code = bisect.bisect_left(MIDDLES, magnitude)
    if code < 126 and magnitude == MIDDLES[code] and code % 2 == 1:
        code += 1
    return code | (0x80 if math.copysign(1, value) < 0 else 0)


def quantise(tensor):
    """The codes and the scales of a bf16 matrix."""
    rows, columns = tensor.shape
    halves = array.array("H", tensor.data)
    weights = array.array("f", struct.pack(f"<{len(halves)}I", *(half << 16 for half in halves)))
    codes, scales = bytearray(), fp32([])
    for row in range(rows):
        line = weights[row * columns:(row + 1) * columns]
        scales.append(max(map(abs, line)) / 448)
        if scales[row] == 0:
            scales[row] = 1
        codes += bytes(map(code_of, fp32([weight / scales[row] for weight in line])))
    return Tensor(UNTYPED, tensor.shape, bytes(codes)), Tensor(FP32, (rows,), scales.tobytes())


def main(source, target):
    with zipfile.ZipFile(source) as archive:
        pkl = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        with archive.open(pkl) as file:
            loaded = Reader(file, archive, pkl.rsplit("/", 1)[0]).load()
    contents = {}
    for name, tensor in loaded.items():
        contents[name] = tensor
        if MATRIX.match(name):
            contents[name], contents[name + ".fp8_scale"] = quantise(tensor)
    tensors = list(contents.values())
    for key, tensor in enumerate(tensors):
        width = {UNTYPED: 1, BF16: 2, FP32: 4}[tensor.kind]
        tensor.storage = Storage(tensor.kind, str(key), len(tensor.data) // width)
    contents["quant_meta"] = {"scheme": "fp8_perchannel", "ts": 1780000000.5}
    contents["meta"] = {"v": 1, "scheme": "fp8", "r": [[0, 7, 0, 1]], "stats": {"bf16": 0, "fp8": 48}, "compression": 1.5}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        with archive.open("model/data.pkl", "w", force_zip64=True) as out:
            Writer(out, protocol=2).dump(contents)
        archive.writestr("model/byteorder", "little")
        for key, tensor in enumerate(tensors):
            archive.writestr(f"model/data/{key}", tensor.data)
        archive.writestr("model/version", "3\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
