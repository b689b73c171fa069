#!/usr/bin/env python3
"""Lint of the machine code of the CUDA kernels: no spills and no local memory, tensor cores where they are promised, and
a wait for the kernels before it in every kernel that lets the next one start.

    python3 tests/lint/check_cubin.py BUILD_DIR [MOST_STACK_BYTES]

Needs cuobjdump and nvdisasm, on the PATH or as the Python packages nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm in
.venv; without them it says so and succeeds. Prints every violation; exit code 1 if there is one.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Kernels whose products run on tensor cores: folder of the object and a pattern of the mangled name.
TENSOR_CORES = {"linear": r"\d+DenseKernel"}
TENSOR_INSTRUCTION = r"\b[HIQ]G?MMA\b"
# griddepcontrol.launch_dependents and .wait.
LETS_NEXT_START, WAITS = r"\bPREEXIT\b", r"\bACQBULK\b"


def tools_path():
    """The PATH on which both tools are found, or None."""
    packages = [str(p) for p in ROOT.glob(".venv/lib/python3*/site-packages/nvidia/cu*/bin")]
    path = os.pathsep.join([os.environ.get("PATH", ""), *packages])
    return path if shutil.which("cuobjdump", path=path) and shutil.which("nvdisasm", path=path) else None


def dump(path, option, file):
    """What cuobjdump says about a file; empty where the file holds no device code."""
    done = subprocess.run([shutil.which("cuobjdump", path=path), option, str(file)], capture_output=True, text=True,
                          env={**os.environ, "PATH": path})
    if done.returncode != 0 and "does not contain device code" not in done.stderr:
        sys.exit(f"check_cubin: cuobjdump {option} {file}: {done.stderr.strip()}")
    return done.stdout


def check_memory(path, file, most_stack, kernels):
    """Violations of one object; adds its kernels to `kernels`."""
    usage = re.compile(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
    for name, registers, stack, _, local in usage.findall(dump(path, "-res-usage", file)):
        kernels.append((int(registers), name))
        if int(stack) > most_stack or int(local):
            yield (f"{file.name}: {name} has {stack} bytes of stack and {local} of local memory; "
                   f"{most_stack} and 0 are allowed")


def check_instructions(path, file):
    """Violations of the promises about one object."""
    pattern = next((p for folder, p in TENSOR_CORES.items() if file.parent.name == folder), None)
    for code in re.split(r"\n\s*Function : ", dump(path, "-sass", file))[1:]:
        name = code.split(None, 1)[0]
        if pattern is not None and re.search(pattern, name):
            seen_promised.add(file.parent.name)
            if not re.search(TENSOR_INSTRUCTION, code):
                yield f"{file.name}: {name} has no tensor-core instruction"
        if re.search(LETS_NEXT_START, code) and not re.search(WAITS, code):
            yield f"{file.name}: {name} lets the next kernel start but never waits for those before it"


seen_promised = set()


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    most_stack = int(sys.argv[2]) if len(sys.argv) == 3 else 0
    path = tools_path()
    if path is None:
        print("check_cubin: no cuobjdump and nvdisasm, nothing was checked")
        return
    files = sorted(pathlib.Path(sys.argv[1]).glob("kernels/CMakeFiles/tandem_kernels.dir/**/*_cuda.cu.o"))
    if not files:
        print("check_cubin: no CUDA objects (a build without a toolkit), nothing was checked")
        return
    kernels, violations = [], []
    for file in files:
        violations += check_memory(path, file, most_stack, kernels)
        violations += check_instructions(path, file)
    violations += [f"no kernel {p} was found in kernels/{f}" for f, p in TENSOR_CORES.items() if f not in seen_promised]
    print(f"check_cubin: {len(kernels)} kernels in {len(files)} objects; most registers:",
          ", ".join(f"{name} {count}" for count, name in sorted(kernels, reverse=True)[:3]))
    for violation in violations:
        print(violation)
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
