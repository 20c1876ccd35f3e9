# SPDX-License-Identifier: BSD-2-Clause
# A room is one static library with an include root of its own, so that an include against the
# arrows (ARCHITECTURE.md, "Rooms and arrows") does not compile.
#
#   verbena_room(wire SOURCES src/icrc.cpp DEPENDS verbena::base)
#
# makes the target verbena_wire (alias verbena::wire) from the folder that calls it, with include/
# as its public include root. The code is position independent, because the plugin contains the
# rooms.
function(verbena_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(verbena_${name} STATIC ${ROOM_SOURCES})
  add_library(verbena::${name} ALIAS verbena_${name})
  target_include_directories(verbena_${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/include)
  target_link_libraries(verbena_${name}
    PUBLIC ${ROOM_DEPENDS}
    PRIVATE verbena_options ${ROOM_PRIVATE_DEPENDS})
  set_target_properties(verbena_${name} PROPERTIES
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  verbena_precompile(verbena_${name})
endfunction()
