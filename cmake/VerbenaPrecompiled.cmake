# SPDX-License-Identifier: BSD-2-Clause
# Precompiles headers of the standard library (and of GoogleTest, for tests): parsing them takes three quarters of the
# time of an ordinary file.
#
#   verbena_precompile(TARGET [HEADER...])
#
# Targets that are compiled with the same options share one precompiled header; the first of them makes it. Each file
# still includes all that it uses; a build with VERBENA_PRECOMPILE=OFF checks it.
option(VERBENA_PRECOMPILE "Read the standard library's headers once for many files" ON)

set(VERBENA_STANDARD_HEADERS <algorithm> <array> <atomic> <bit> <cerrno> <cstddef> <cstdint> <cstdio>
  <cstdlib> <cstring> <functional> <map> <memory> <mutex> <optional> <span> <string> <string_view>
  <utility> <vector>)

function(verbena_precompile target)
  if(NOT VERBENA_PRECOMPILE)
    return()
  endif()
  get_target_property(type ${target} TYPE)
  get_target_property(independent ${target} POSITION_INDEPENDENT_CODE)
  get_target_property(visibility ${target} CXX_VISIBILITY_PRESET)
  get_directory_property(options COMPILE_OPTIONS)
  string(MD5 kind "${type} ${independent} ${visibility} ${options} ${ARGN}")
  # With this option ccache can tell two precompiled headers apart.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
  get_property(first GLOBAL PROPERTY VERBENA_PRECOMPILED_${kind})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${VERBENA_STANDARD_HEADERS} ${ARGN})
    set_property(GLOBAL PROPERTY VERBENA_PRECOMPILED_${kind} ${target})
  endif()
endfunction()
