#!/usr/bin/env python3
"""Lints that need no compiler: layers, sizes, protos, text. Prints every violation; exit code 1 if there is one.

Run from anywhere: python3 tests/lint/check.py
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What each folder's files may include, besides their own folder and the standard library.
LAYERS = {
    "kernels": [],
    "common/base": [],
    "common/metrics": ["common/base"],
    "common/tokenizer": ["common/base"],
    "common/ipc": ["common/base", "kernels/backend.h", "kernels/draft_records.h", "kernels/view.h",
                   "kernels/lanes.h"],
    "common/model": ["common/base", "kernels"],
    "common/drafter": ["common/base", "kernels", "common/model"],
    "common/rpc": ["common/base", "common/metrics", "tandem/v1", "google/rpc"],
    "services/router": ["common/base", "common/metrics", "common/tokenizer", "common/rpc", "tandem/v1",
                        "google/rpc"],
    "services/verifier": ["common/base", "common/metrics", "common/ipc", "common/model", "common/drafter",
                          "common/rpc", "kernels", "tandem/v1", "google/rpc"],
    "services/drafter": ["common/base", "common/metrics", "common/ipc", "common/model", "common/drafter",
                         "common/rpc", "kernels", "tandem/v1"],
    "services/cli": ["common/base", "common/tokenizer", "common/rpc", "common/model", "common/drafter",
                     "kernels", "tandem/v1", "google/rpc"],
}
# Library headers that only some folders may see.
FENCED = {
    r"cuda|cublas|nccl|nvrtc": r"^kernels/.*_cuda\.(cu|cuh)$",
    r"grpc": r"^(common/rpc|services|tests)/",
    r"absl/flags": r"^(services/[a-z]+/main\.cc|common/base/flags\.cc)$",
    r"absl": r"^(?!kernels/)",
    r"hwy": r"^(kernels|tests)/",
}
MAX_HEADER, MAX_SOURCE, MAX_FUNCTION, MAX_KERNEL = 150, 400, 60, 200
CODE = {".h", ".cc", ".cu", ".cuh"}


def tracked_files():
    """Files git knows or would add, relative to the root."""
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                         capture_output=True, text=True).stdout
    return sorted(f for f in out.splitlines() if (ROOT / f).is_file())


def check_layers(files):
    """Includes point downwards only, and fenced libraries stay in their folders."""
    for name in files:
        path = pathlib.Path(name)
        if path.suffix not in CODE or path.parts[0] == "tests":
            continue
        folder = next((f for f in LAYERS if name.startswith(f + "/")), None)
        if folder is None:
            yield f"{name}: lies in no layer"
            continue
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            match = re.match(r'\s*#include [<"]([^>"]+)[>"]', line)
            if not match:
                continue
            target = match.group(1)
            where = f"{name}:{number}"
            if re.match(r"(kernels|common|services|tests)/|(tandem|google)/", target) and not target.startswith(
                    "google/protobuf"):
                allowed = LAYERS[folder] + [folder]
                if not any(target == a or target.startswith(a + "/") for a in allowed):
                    yield f"{where}: {folder} must not include {target}"
            for library, place in FENCED.items():
                if re.match(rf"({library})", target) and not re.search(place, name):
                    yield f"{where}: {target} is not for this file"


def check_sizes(files):
    """Line budgets of files and functions; also prints the longest of each."""
    files = [f for f in files if pathlib.Path(f).suffix in CODE]
    lengths = {f: len((ROOT / f).read_text().splitlines()) for f in files}
    for kind, limit, suffixes in (("header", MAX_HEADER, {".h", ".cuh"}), ("source", MAX_SOURCE, {".cc", ".cu"})):
        chosen = sorted(((n, f) for f, n in lengths.items() if pathlib.Path(f).suffix in suffixes), reverse=True)
        print(f"longest {kind}s:", ", ".join(f"{f} {n}" for n, f in chosen[:5]))
        for n, f in chosen:
            if n > limit:
                yield f"{f}: {n} lines, a {kind} has at most {limit}"
    tags = subprocess.run(["ctags", "-f", "-", "--languages=C++,CUDA", "--kinds-C++=f", "--kinds-CUDA=f", "--fields=ne",
                           *files], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    functions = []
    for tag in tags.splitlines():
        line, end = re.search(r"\tline:(\d+)", tag), re.search(r"\tend:(\d+)", tag)
        if line and end:
            name, file = tag.split("\t")[:2]
            functions.append((int(end.group(1)) - int(line.group(1)) + 1, file, name))
    functions.sort(reverse=True)
    print("longest functions:", ", ".join(f"{file}:{name} {n}" for n, file, name in functions[:5]))
    for n, file, name in functions:
        limit = MAX_KERNEL if file.endswith(".cu") and name.endswith("Kernel") else MAX_FUNCTION
        if n > limit:
            yield f"{file}: {name} has {n} lines, at most {limit}"


def check_protos(files):
    """A comment on every message field of a request, *_UNSPECIFIED = 0 and prefixed enum values."""
    for name in files:
        if not name.startswith("proto/tandem/"):
            continue
        enum = None
        previous = ""
        depth_names = []
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            where = f"{name}:{number}"
            opened = re.match(r"\s*(message|enum|service|oneof) (\w+)", line)
            if opened:
                depth_names.append(opened.group(2))
                if opened.group(1) == "enum":
                    enum = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", opened.group(2)).upper()
                    first = True
                if line.rstrip().endswith("{}"):
                    depth_names.pop()
            elif line.strip() == "}":
                if depth_names:
                    depth_names.pop()
                enum = None
            value = re.match(r"\s*(\w+) = (\d+);", line)
            if enum and value:
                if not value.group(1).startswith(enum + "_"):
                    yield f"{where}: enum value {value.group(1)} does not start with {enum}_"
                if first and (value.group(1), value.group(2)) != (enum + "_UNSPECIFIED", "0"):
                    yield f"{where}: the first value is {enum}_UNSPECIFIED = 0"
                first = False
            field = re.match(r"\s*optional \w+ \w+ = \d+;", line)
            if field and not previous.strip().startswith("//"):
                yield f"{where}: an optional field states meaning, range and default in a comment"
            previous = line


def check_text(files):
    """No trailing blanks, no tabs in sources, nothing that only this moment understands."""
    banned = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\.\./shared|/work/")
    for name in files:
        path = pathlib.Path(name)
        if path.suffix not in CODE | {".proto", ".py", ".sh", ".md", ".cmake", ".txt"} or name in (
                "tests/lint/check.py", "LICENSE") or name.startswith("deploy/demo-model/"):
            continue
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            if line != line.rstrip():
                yield f"{name}:{number}: trailing blank"
            if "\t" in line and path.suffix in CODE:
                yield f"{name}:{number}: tab"
            if banned.search(line):
                yield f"{name}:{number}: {banned.search(line).group(0)}"


def main():
    files = tracked_files()
    violations = [v for check in (check_layers, check_sizes, check_protos, check_text) for v in check(files)]
    for violation in violations:
        print(violation)
    print(f"lint: {len(files)} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
