# SPDX-License-Identifier: BSD-2-Clause
# Programs that are copied to other machines, verbena_self_contained(TARGET): no C++ library need be
# there. With VERBENA_PORTABLE none but the C library.
function(verbena_self_contained target)
  if(NOT VERBENA_SANITIZE)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,--gc-sections)
  endif()
endfunction()
