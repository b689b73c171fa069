#!/usr/bin/env bash
# Clang's thread-safety analysis over every source with a lock annotation; g++ ignores the annotations.
#   tests/lint/thread_safety.sh BUILD_DIR     (generated protos must exist there)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=$1
mapfile -t headers < <(grep -rlE 'ABSL_GUARDED_BY|ABSL_EXCLUSIVE_LOCKS_REQUIRED' common services --include=*.h || true)
mapfile -t direct < <(grep -rlE 'ABSL_GUARDED_BY|ABSL_EXCLUSIVE_LOCKS_REQUIRED' common services --include=*.cc || true)
sources=("${direct[@]}")
for header in "${headers[@]}"; do
  [ -f "${header%.h}.cc" ] && sources+=("${header%.h}.cc")
done
printf '%s\n' "${sources[@]}" | sort -u | xargs -P "$(nproc)" -I{} \
  clang++-14 -std=c++20 -fsyntax-only -Wthread-safety -Werror=thread-safety -I. -isystem "$build/proto" {}
printf 'thread safety: %d sources clean\n' "$(printf '%s\n' "${sources[@]}" | sort -u | wc -l)"
