# One CMake target per row of the layer table: tandem_library(<row> SOURCES ... DEPS ...).
# Warnings are errors for our own code only; generated code does not come through here.

# Left out: -Wrestrict, which g++ 12 raises falsely for std::string (its bug 105651), and -Wmissing-field-initializers,
# because designated initialisers that name some fields are the rule here.
add_library(tandem_warnings INTERFACE)
target_compile_options(tandem_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor;-Werror;-Wno-restrict;-Wno-missing-field-initializers>)

add_library(tandem_options INTERFACE)
target_include_directories(tandem_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(tandem_options INTERFACE
  # One rounding per operation as written: results must not depend on what the compiler fuses.
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
if(TANDEM_SANITIZE)
  # Instrumented code makes g++ 12 raise both falsely.
  target_compile_options(tandem_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized;-Wno-tsan>)
  target_compile_options(tandem_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TANDEM_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer;-O1;-g1>)
  target_link_options(tandem_options INTERFACE -fsanitize=${TANDEM_SANITIZE})
endif()
set(tandem_program_sources)
if(TANDEM_SANITIZE STREQUAL "thread")
  # The file says what for.
  set(tandem_program_sources ${CMAKE_SOURCE_DIR}/tests/sanitizers/absl_mutex.cc)
  target_link_libraries(tandem_options INTERFACE absl::synchronization)
  foreach(function 4LockEv 6UnlockEv 5AwaitERKNS0_9ConditionE
                   16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE D1Ev)
    target_link_options(tandem_options INTERFACE -Wl,--wrap=_ZN4absl7debian35Mutex${function})
  endforeach()
endif()

function(tandem_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(tandem_${name} STATIC ${ARG_SOURCES})
  add_library(tandem::${name} ALIAS tandem_${name})
  target_link_libraries(tandem_${name} PUBLIC tandem_options ${ARG_DEPS} PRIVATE tandem_warnings)
endfunction()

function(tandem_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES} ${tandem_program_sources})
  target_link_libraries(${name} PRIVATE tandem_options tandem_warnings ${ARG_DEPS})
endfunction()

# A GoogleTest binary that ctest runs as one test, in the source root, with a time limit in seconds. In a sanitizer build
# the limit is longer, and SANITIZED_FILTER, a GoogleTest filter, can name the instances of a large grid to run.
function(tandem_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;SANITIZED_FILTER" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(TANDEM_SANITIZE)
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")
  endif()
  add_executable(${name} ${ARG_SOURCES} ${tandem_program_sources})
  target_link_libraries(${name} PRIVATE tandem_options tandem_warnings ${ARG_DEPS} GTest::gmock_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  if(TANDEM_SANITIZE AND ARG_SANITIZED_FILTER)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "GTEST_FILTER=${ARG_SANITIZED_FILTER}")
  endif()
  if("tsan" IN_LIST ARG_LABELS)
    set_property(GLOBAL APPEND PROPERTY TANDEM_TSAN_TESTS ${name})
  endif()
endfunction()
