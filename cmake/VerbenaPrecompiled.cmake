# SPDX-License-Identifier: BSD-2-Clause
# Headers of the standard library (and of GoogleTest, for tests) that are read once for many files:
# to parse them is three quarters of what an ordinary file costs.
#
#   verbena_precompile(TARGET [HEADER...])
#
# Targets that are compiled with the same options share one precompiled header; the first of them
# makes it. Each file includes what it uses all the same: VERBENA_PRECOMPILE=OFF shows whether it does.
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
  # So that ccache can tell two of them apart.
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
