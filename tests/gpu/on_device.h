#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/backend_cuda.h"
#include "kernels/view.h"

namespace tandem {

// A backend on the first CUDA device; null where there is none, with the reason on stderr.
inline std::unique_ptr<Backend> CudaOrNull() {
  CudaStart start = MakeCudaBackend({});
  if (start.backend == nullptr) std::fprintf(stderr, "no CUDA device: %s\n", start.refused.c_str());
  return std::move(start.backend);
}

// Test data in the memory of a backend, freed with the backend.
class OnDevice final {
 public:
  explicit OnDevice(Backend& backend) : backend_(backend) {}

  // A copy of the values.
  template <class T>
  View<T> In(const std::vector<T>& values) {
    const View<T> view = Allocate<T>(values.size());
    backend_.CopyIn(view.data, values.data(), values.size() * sizeof(T));
    return view;
  }

  // `size` values that an op has to write: every byte is 0xFF, a NaN in floats and -1 in integers.
  template <class T>
  View<T> Out(size_t size) {
    const View<T> view = Allocate<T>(size);
    const std::vector<unsigned char> poison(size * sizeof(T), 0xFF);
    backend_.CopyIn(view.data, poison.data(), poison.size());
    return view;
  }

  // The values after all ops enqueued so far.
  template <class T>
  std::vector<std::remove_const_t<T>> Read(View<T> view) {
    std::vector<std::remove_const_t<T>> values(view.size);
    backend_.CopyOut(values.data(), view.data, view.size * sizeof(T));
    backend_.Wait();
    return values;
  }

 private:
  template <class T>
  View<T> Allocate(size_t size) {
    if (size == 0) return {};
    void* const memory = backend_.Allocate(size * sizeof(T));
    if (memory == nullptr) {
      std::fprintf(stderr, "OnDevice: no memory for %zu bytes\n", size * sizeof(T));
      std::abort();
    }
    return {static_cast<T*>(memory), size};
  }

  Backend& backend_;
};

}  // namespace tandem
