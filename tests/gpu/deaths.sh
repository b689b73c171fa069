#!/usr/bin/env bash
# What a death does: starts `tandem up` with the demo model, without and with MPS, and ends drafter, verifier and MPS
# daemon while replies are generated, and lets another process fault on the GPU. Every time each reply must have exactly
# its tokens and the group must draft again; at the end the GPU's memory must be free. In a checkout after a build or in
# a tree that pack.sh made; needs python3 and nothing else.
#
#   tests/gpu/deaths.sh [--build DIR] [--backend cuda|cpu] [--results DIR] [--keep-logs DIR] [MODE...]
#
# MODE: no-mps, mps (both). Prints a line per case: who was started again, the longest pause that a client saw, and the
# time until the group was whole. Exit code 1 when a case did not pass.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# The libraries that pack.sh carried.
[[ ! -d $root/build/lib ]] || export LD_LIBRARY_PATH="$root/build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
for argument in "$@"; do
  [[ $argument != -h && $argument != --help ]] || { sed -n '2,11s/^# \?//p' "${BASH_SOURCE[0]}"; exit 0; }
done
exec python3 -B "$root/tests/gpu/deaths.py" "$@"
