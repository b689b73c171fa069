#pragma once

#include <cstdio>
#include <cstdlib>

#include "kernels/accept/accept.h"

namespace tandem {

// How many choices the scratch memory holds, at least 1: ends the process where the caller gave
// less, which would otherwise choose nothing.
inline int ChoicesAtOnce(const AcceptArgs& args) {
  const size_t one = AcceptScratchFloats(args.vocab);
  if (args.scratch.size < one) {
    std::fprintf(stderr, "Accept: scratch of %zu floats, one choice among %d ids needs %zu\n",
                 args.scratch.size, args.vocab, one);
    std::abort();
  }
  return static_cast<int>(args.scratch.size / one);
}

}  // namespace tandem
