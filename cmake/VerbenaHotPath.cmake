# SPDX-License-Identifier: BSD-2-Clause
# Options for code that packets pass through: verbena_hot_path() for such a folder, and
# verbena_link_as_one(TARGET) for a plugin or a program that must be fast.
#
# By default gcc for x86 clears and copies structures by `rep stos` and `rep movs`. To start these
# takes longer than much of a packet's work, and many times as long on an emulated processor.
#
# A packet passes a dozen rooms, and most of their functions have one caller. Link-time optimisation
# inlines these functions across files (bench/README.md, "Instructions", has the gain). The objects
# hold ordinary code as well, so all other targets, tests and tools among them, link as fast as
# before. Code that seldom runs is [[gnu::cold]]; the compiler decides the rest.
include(CheckCXXCompilerFlag)

set(VERBENA_NO_REP
  -mmemset-strategy=vector_loop:512:noalign,libcall:-1:noalign
  -mmemcpy-strategy=vector_loop:512:noalign,libcall:-1:noalign)
check_cxx_compiler_flag("${VERBENA_NO_REP}" VERBENA_HAS_NO_REP)

set(VERBENA_LINKS_AS_ONE OFF)
if(VERBENA_LTO AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT VERBENA_SANITIZE
   AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(VERBENA_LINKS_AS_ONE ON)
  add_link_options($<$<NOT:$<BOOL:$<TARGET_PROPERTY:VERBENA_IS_ONE>>>:-fno-lto>)
endif()

macro(verbena_hot_path)
  if(VERBENA_HAS_NO_REP)
    add_compile_options(${VERBENA_NO_REP})
  endif()
  if(VERBENA_LINKS_AS_ONE)
    add_compile_options(-flto=auto -ffat-lto-objects)
  endif()
endmacro()

function(verbena_link_as_one target)
  if(VERBENA_LINKS_AS_ONE)
    set_target_properties(${target} PROPERTIES VERBENA_IS_ONE ON)
    target_link_options(${target} PRIVATE -flto=auto)
    if(VERBENA_HAS_NO_REP)
      target_link_options(${target} PRIVATE ${VERBENA_NO_REP})
    endif()
  endif()
endfunction()
