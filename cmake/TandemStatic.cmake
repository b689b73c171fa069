# With TANDEM_STATIC, programs that run where none of the libraries is installed: archives are linked wherever the
# system has them. The others (libhwy, prometheus-cpp and, because these use it, libstdc++) are looked for in ../lib
# beside the program first; tests/gpu/pack.sh puts them there.
if(TANDEM_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
  set(CMAKE_BUILD_RPATH "$ORIGIN/../lib")
  # The old tag: the libraries in ../lib find each other there too.
  add_link_options(-Wl,--disable-new-dtags)
endif()

# Packages name their shared library even where an archive lies beside it: makes the targets imported so far mean the
# archive. Does nothing without TANDEM_STATIC.
function(tandem_prefer_archives)
  if(NOT TANDEM_STATIC)
    return()
  endif()
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
    foreach(configuration IN LISTS configurations)
      get_target_property(location ${target} IMPORTED_LOCATION_${configuration})
      if(NOT location MATCHES "^(.*/lib[^/]*)\\.so[.0-9]*$")
        continue()
      endif()
      if(EXISTS "${CMAKE_MATCH_1}.a")
        set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} "${CMAKE_MATCH_1}.a")
      endif()
    endforeach()
  endforeach()
endfunction()
