# CUDA is optional: with a toolkit every kernels/**/*_cuda.cu is compiled, without one, and under the sanitizers, the
# CPU backend stands alone.
include(CheckLanguage)
set(TANDEM_CUDA_SOURCES)
if(TANDEM_SANITIZE)
  message(STATUS "tandem: sanitizers, building the CPU backend only")
else()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    # The runtime is linked statically, so that a machine needs no more than a driver.
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    enable_language(CUDA)
    # CMake 3.25 does not know this toolkit's C++20 flag.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    find_package(CUDAToolkit REQUIRED)
    file(GLOB_RECURSE TANDEM_CUDA_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/*_cuda.cu)
    list(LENGTH TANDEM_CUDA_SOURCES count)
    message(STATUS "tandem: CUDA ${CUDAToolkit_VERSION} found, ${count} CUDA sources will be built for "
      "${TANDEM_CUDA_ARCHITECTURES}")
  else()
    message(STATUS "tandem: no CUDA toolkit found, building the CPU backend only")
  endif()
endif()

# Device code of a target: source lines for profilers, constexpr functions that host and device share, and nvcc's own
# warnings are errors. Left out of them: 554, raised for the conversion of a View to itself, and what TandemTarget leaves
# out.
function(tandem_cuda_options target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo;--expt-relaxed-constexpr;--Werror=all-warnings;--diag-suppress=554;-Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers>)
endfunction()
