#!/usr/bin/env bash
# Packs what tests/gpu/run.sh needs, with serve.sh and deaths.sh, where nothing can be installed: the stripped programs, the
# libraries they use besides glibc, the demo model and the scripts. Tests go along where the build has them.
#
#   tests/gpu/pack.sh BUILD_DIR OUT.tar.xz [PROGRAM...]
#
# PROGRAM: more of the build, e.g. bin/tandem. Unpack and run there:
#   tar xf OUT.tar.xz && tandem-gpu/tests/gpu/run.sh
set -euo pipefail
[[ $# -ge 2 ]] || { sed -n '2,9s/^# \?//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(cd "$1" && pwd)
out=$(realpath -m "$2")
shift 2
limit=$((60 << 20))
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
tree=$stage/tandem-gpu
mkdir -p "$tree"/{build/{tests,bin,lib},tests/gpu,deploy}

cd "$build"
shopt -s nullglob
programs=(tests/*_cuda_test "$@")
for program in "${programs[@]}"; do
  strip -o "$tree/build/$program" "$program"
  # What a bare machine has: glibc and its loader.
  ldd "$program" | awk '$2 == "=>" { print $3 }' |
    grep -vE '/(ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv)\.so\.[0-9]+$' || true
done | sort -u | while read -r library; do
  strip -o "$tree/build/lib/$(basename "$library")" "$library"
done
cp -r "$root/deploy/demo-model" "$tree/deploy/"
cp "$root"/tests/gpu/{run.sh,serve.sh,serve.py,deaths.sh,deaths.py} "$tree/tests/gpu/"
git -C "$root" rev-parse --short HEAD >"$tree/COMMIT"

tar -C "$stage" -cf - tandem-gpu | xz -T0 -6 --memlimit-compress=4GiB >"$out"
size=$(stat -c %s "$out")
echo "$out: $((size >> 20)) MiB, unpacked $(du -sm "$tree" | cut -f1) MiB"
((size <= limit)) || { echo "pack.sh: more than $((limit >> 20)) MiB" >&2; exit 1; }
