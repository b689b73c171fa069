#!/usr/bin/env bash
# Tests and times the CUDA backend on a machine with a GPU: in a checkout after a build, or in a tree that
# tests/gpu/pack.sh made. Nothing is built or installed. Without names: all test programs, then what the build has of
# serve.sh (with and without MPS), deaths.sh, and the steps of a synthetic model of real size.
#
#   tests/gpu/run.sh [--build DIR] [--results DIR] [--sanitize] [TEST...]
#
#   --build DIR     where the built programs lie (build)
#   --results DIR   where logs and <card>.jsonl go (tests/bench/results)
#   --sanitize      also the op tests under compute-sanitizer: memcheck on all of them, racecheck on small sizes
#   TEST...         names of test programs, e.g. linear_cuda_test: only these
#
# Ends with a table; exit code 1 when a test failed, or was skipped although the machine has a GPU.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=build results=tests/bench/results sanitize=0 names=()
while (($#)); do
  case "$1" in
    --build) build=$2; shift ;;
    --results) results=$2; shift ;;
    --sanitize) sanitize=1 ;;
    -h | --help) sed -n '2,14s/^# \?//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    -*) echo "run.sh: unknown option '$1'; see --help" >&2; exit 2 ;;
    *) names+=("$1") ;;
  esac
  shift
done
services=0
((${#names[@]})) || services=1 names=($(cd "$build/tests" && ls -d ./*_cuda_test | sed 's|^./||'))
mkdir -p "$results"
# The libraries that pack.sh carried.
[[ ! -d $build/lib ]] || export LD_LIBRARY_PATH="$PWD/$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1 || true)
card=${gpu%%,*} driver=${gpu##*, }
commit=$(cat COMMIT 2>/dev/null || git rev-parse --short HEAD)
lines=$results/$(tr -cs 'A-Za-z0-9\n' '-' <<<"${card:-no-gpu}" | tr 'A-Z' 'a-z').jsonl
table=() bad=0

# name, log, command...: runs it, and adds a row to the table and a line to the results.
one() {
  local name=$1 log=$results/$1.log began=$EPOCHREALTIME result=pass
  shift
  timeout -k 10 600 "$@" >"$log" 2>&1
  local code=$?
  if ((code != 0)); then
    result=FAIL
    ((code == 124 || code == 137)) && echo "$name: killed after 600 s" >>"$log"
  elif grep -q 'no CUDA device' "$log"; then
    result=skipped
  fi
  local seconds
  seconds=$(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $began }")
  if [[ $result == FAIL || ($result == skipped && -n $gpu) ]]; then
    bad=$((bad + 1))
    echo "--- $name: $result ($code)"
    grep -E 'FAILED|Failure|ERROR SUMMARY|=========|no CUDA device|\.cu:[0-9]+' "$log" | head -20
    tail -3 "$log"
  fi
  grep -E '^(largest distance|accepted drafts)' "$log" | sed "s/^/$name: /"
  table+=("$(printf '%-44s %-8s %8s s' "$name" "$result" "$seconds")")
  printf '{"date":"%s","commit":"%s","card":"%s","driver":"%s","command":"%s","result":"%s","seconds":%s}\n' \
    "$(date -u +%FT%TZ)" "$commit" "$card" "$driver" "$name" "${result,,}" "$seconds" >>"$lines"
}

# The tests of a program that run under racecheck, which slows kernels down a hundredfold and more: every kernel and
# format, at small sizes.
racecheck_filter() {
  case "$1" in
    shift_cuda_test) echo '*/256_*' ;;
    time_mix_core_cuda_test) echo '*/256_*.FollowsTheCpu*:*/256_0.ChunksDoNotMatter' ;;
    residual_ops_cuda_test | sidecar_cuda_test) echo '*/256' ;;
    attend_cuda_test) echo '*.PromptThenDrafts/256' ;;
    linear_cuda_test) echo '*.EpiloguesAndStrides/*:*.NanBreaksItsRow/*' ;;
    accept_cuda_test) echo '*.OddVocabulary:*.EverySettingOnEveryKind:*.BansOfAllIdsAndOfAllButOne' ;;
    *) echo '*' ;;
  esac
}

echo "card: ${card:-none}, driver: ${driver:-none}, commit: $commit"
for name in "${names[@]}"; do one "$name" "$build/tests/$name" --gtest_brief=1; done
if ((sanitize)); then
  if command -v compute-sanitizer >/dev/null; then
    for name in "${names[@]}"; do
      # Whole models take hours there; other processes are not followed; streams that wait for each other do not go on.
      [[ $name =~ ^(model|drafter|ipc|record_passes|words)_cuda_test$ ]] && continue
      for tool in memcheck racecheck; do
        # Racecheck reports cuBLASLt's own kernels, which order their memory by barriers that it does not know.
        [[ $tool == racecheck && $name =~ ^(gemm|batch_invariant)_cuda_test$ ]] && continue
        filter='*'
        [[ $tool != racecheck ]] || filter=$(racecheck_filter "$name")
        one "$name.$tool" compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/tests/$name" --gtest_brief=1 \
          "--gtest_filter=$filter"
      done
    done
  else
    echo "compute-sanitizer is not on the PATH"
    bad=$((bad + 1))
  fi
fi
# The services and the speed of whole steps, where there is a GPU to measure.
if ((services)) && [[ -n $gpu ]]; then
  for script in 'serve bf16 fp8' 'serve --mps bf16 fp8' deaths; do
    [[ -x $build/bin/tandem ]] || break
    read -r name arguments <<<"$script"
    one "${script// /.}" bash "tests/gpu/$name.sh" --build "$build" --results "$results" $arguments
  done
  for format in bf16 fp8; do
    [[ -x $build/bin/gpu_step_bench ]] || break
    one "steps.7.2b.$format" "$build/bin/gpu_step_bench" --synthetic=7.2b --weights=$format --draft-weights=fp8 --rows=1,4 \
      --prefill=1024 --batch= --steps=200 --json="$lines"
  done
fi
printf '\n'
printf '%s\n' "${table[@]}"
if ((bad)); then echo "$bad did not pass; logs in $results"; exit 1; fi
if [[ -n $gpu ]]; then echo "all passed"; else echo "skipped: no GPU here"; fi
