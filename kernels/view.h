#pragma once

#include <cstddef>

namespace tandem {

// Pointer and element count of memory that somebody else owns. The shape stands in a comment beside
// each use.
template <class T>
struct View {
  T* data = nullptr;
  size_t size = 0;

  T& operator[](size_t i) const { return data[i]; }
  View Sub(size_t offset, size_t count) const { return {data + offset, count}; }
  operator View<const T>() const { return {data, size}; }
};

}  // namespace tandem
