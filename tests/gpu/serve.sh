#!/usr/bin/env bash
# Starts `tandem up --backend=cuda` with the demo model, in a checkout after a build or in a tree that pack.sh made, and
# checks the whole path: greedy texts with and without drafts against each other bit for bit and against the golden
# tokens, in bf16 and fp8; the drafter killed in mid-stream; tokens per second. Needs python3 and nothing else.
#
#   tests/gpu/serve.sh [--mps] [--build DIR] [--backend cuda|cpu] [--handoff auto|device|host]
#                      [--results DIR] [FORMAT...]
#
#   --mps   under the private MPS daemon of `tandem up`
#
# FORMAT: bf16, fp8, fp8-all (all). Exit code 1 when a check failed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# The libraries that pack.sh carried.
[[ ! -d $root/build/lib ]] || export LD_LIBRARY_PATH="$root/build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
for argument in "$@"; do
  [[ $argument != -h && $argument != --help ]] || { sed -n '2,11s/^# \?//p' "${BASH_SOURCE[0]}"; exit 0; }
done
exec python3 -B "$root/tests/gpu/serve.py" "$@"
