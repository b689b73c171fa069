#pragma once

#include <cstdint>
#include <string>

namespace tandem {

// From the kernel's random source.
uint64_t RandomBits();

// RandomBits as 16 hex digits.
std::string RandomId();

}  // namespace tandem
