# SPDX-License-Identifier: BSD-2-Clause
# verbena_self_contained(TARGET) is for programs that are copied to other machines: they need no
# shared C++ library. With VERBENA_PORTABLE they need only the C library.
function(verbena_self_contained target)
  if(NOT VERBENA_SANITIZE)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,--gc-sections)
  endif()
endfunction()
