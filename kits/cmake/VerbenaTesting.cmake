# SPDX-License-Identifier: BSD-2-Clause
# Defines tests of RDMA programs. find_package(Verbena) includes this file. CMake 3.18 is needed.
#
#   verbena_add_test(NAME name COMMAND program [args...] ...)
#   verbena_add_test(NAME name PAIR "server command" "client command" ...)
#     PRIVATE              gives the test a device of its own, so that tests can run in parallel
#     SCENARIO file        injects faults, as `verbena run --scenario` takes them
#     INJECT rule...       injects faults, as `verbena run --inject` takes them
#     REQUIRE_FIRED        fails the test if one of these rules was never applied
#     TIMEOUT seconds      ends everything after this time and fails the test
#     ARTIFACTS directory  keeps counters, packets and explanations of the run; a directory for each test
#     OPTIONS option...    passes any other options to `verbena run`
#
# If the first word of a command is an executable that was defined before, it stands for its program. A shell runs the
# commands of PAIR.
#
# The target Verbena::gtest provides the header verbena/gtest.hpp.

# These policies are for the functions below, whatever the project has chosen.
cmake_policy(VERSION 3.18)

# Appends one word to the code of a command, whatever the word contains. CMake's lists would split it at a semicolon, and
# join it with the next word at a backslash or an open bracket.
function(_verbena_append out word)
  string(REGEX REPLACE "([\\\"$])" "\\\\\\1" word "${word}")
  set(${out} "${${out}} \"${word}\"" PARENT_SCOPE)
endfunction()

# Appends the words of a list among the arguments (_vt_*), each behind the option if there is one.
function(_verbena_append_list out keyword option)
  set(number 0)
  while(DEFINED _vt_${keyword} AND number LESS _vt_${keyword}_COUNT)
    if(NOT option STREQUAL "")
      _verbena_append(${out} "${option}")
    endif()
    _verbena_append(${out} "${_vt_${keyword}_${number}}")
    math(EXPR number "${number} + 1")
  endwhile()
  set(${out} "${${out}}" PARENT_SCOPE)
endfunction()

# Appends the words of `verbena run` before the program.
function(_verbena_append_options out)
  if(_vt_PRIVATE)
    _verbena_append(${out} --private)
  endif()
  _verbena_append_list(${out} INJECT --inject)
  if(DEFINED _vt_SCENARIO)
    get_filename_component(scenario "${_vt_SCENARIO}" ABSOLUTE)
    if(NOT EXISTS "${scenario}")
      message(FATAL_ERROR "verbena_add_test(${_vt_NAME}): there is no scenario ${scenario}")
    endif()
    _verbena_append(${out} --scenario)
    _verbena_append(${out} "${scenario}")
  endif()
  if(DEFINED _vt_ARTIFACTS)
    get_filename_component(artifacts "${_vt_ARTIFACTS}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
    _verbena_append(${out} --artifacts)
    _verbena_append(${out} "${artifacts}")
  endif()
  if(DEFINED _vt_TIMEOUT)
    _verbena_append(${out} --timeout)
    _verbena_append(${out} "${_vt_TIMEOUT}")
  endif()
  if(_vt_REQUIRE_FIRED)
    _verbena_append(${out} --require-fired)
  endif()
  _verbena_append_list(${out} OPTIONS "")
  set(${out} "${${out}}" PARENT_SCOPE)
endfunction()

# Ends with an error if the arguments make no test. An empty rule or file is an error too, because the test would pass
# without its faults.
function(_verbena_check)
  set(test "verbena_add_test(${_vt_NAME})")
  if("${_vt_NAME}" STREQUAL "")
    message(FATAL_ERROR "verbena_add_test: NAME is missing")
  endif()
  if(DEFINED _vt_unknown)
    message(FATAL_ERROR "${test}: unknown:${_vt_unknown}")
  endif()
  if((DEFINED _vt_COMMAND AND DEFINED _vt_PAIR) OR DEFINED _vt_PAIR_2 OR
     ("${_vt_COMMAND_0}" STREQUAL "" AND ("${_vt_PAIR_0}" STREQUAL "" OR "${_vt_PAIR_1}" STREQUAL "")))
    message(FATAL_ERROR "${test}: give COMMAND, or PAIR with two commands")
  endif()
  foreach(keyword SCENARIO ARTIFACTS)
    if(DEFINED _vt_${keyword} AND _vt_${keyword} STREQUAL "")
      message(FATAL_ERROR "${test}: ${keyword} names nothing")
    endif()
  endforeach()
  set(number 0)
  while(DEFINED _vt_INJECT AND (number EQUAL 0 OR number LESS _vt_INJECT_COUNT))
    if("${_vt_INJECT_${number}}" STREQUAL "")
      message(FATAL_ERROR "${test}: INJECT without a rule")
    endif()
    math(EXPR number "${number} + 1")
  endwhile()
  if(DEFINED _vt_TIMEOUT AND (NOT _vt_TIMEOUT MATCHES "^[0-9]*[.]?[0-9]+$" OR NOT _vt_TIMEOUT MATCHES "[1-9]" OR
     _vt_TIMEOUT GREATER 1000000))
    message(FATAL_ERROR "${test}: TIMEOUT wants seconds, such as 90 or 0.5, not \"${_vt_TIMEOUT}\"")
  endif()
  if(_vt_REQUIRE_FIRED AND NOT DEFINED _vt_SCENARIO AND NOT DEFINED _vt_INJECT)
    message(FATAL_ERROR "${test}: REQUIRE_FIRED wants rules: SCENARIO or INJECT")
  endif()
endfunction()

# Finds quotes for paths of programs in the commands of PAIR. The shell takes all between '' as it is, except a '.
function(_verbena_find_quotes out)
  set(quotes "'")
  if(CMAKE_BINARY_DIR MATCHES "'")
    set(quotes "\"")
    if(CMAKE_BINARY_DIR MATCHES "[\"$`\\]")
      message(FATAL_ERROR "verbena_add_test(${_vt_NAME}): PAIR cannot take programs from ${CMAKE_BINARY_DIR}: there is a ' "
              "beside one of \" $ ` \\ in its name")
    endif()
  endif()
  set(${out} "${quotes}" PARENT_SCOPE)
endfunction()

# Replaces an executable target by its program's path, between `quotes`, if it is the command or, with `is_line`, the
# first word of a command for a shell.
function(_verbena_command_of out command is_line quotes)
  set(target "${command}")
  set(arguments "")
  if(is_line AND command MATCHES "^([^ ]+)(.*)$")
    set(target "${CMAKE_MATCH_1}")
    set(arguments "${CMAKE_MATCH_2}")
  endif()
  set(type "")
  if(TARGET "${target}")
    get_target_property(type "${target}" TYPE)
  endif()
  if(type STREQUAL "EXECUTABLE")
    set(command "${quotes}$<TARGET_FILE:${target}>${quotes}${arguments}")
  endif()
  set(${out} "${command}" PARENT_SCOPE)
endfunction()

function(verbena_add_test)
  set(flags PRIVATE REQUIRE_FIRED)
  set(singles NAME SCENARIO TIMEOUT ARTIFACTS)
  set(lists COMMAND PAIR INJECT OPTIONS)
  foreach(keyword IN LISTS flags singles lists)
    unset(_vt_${keyword})
    foreach(number 0 1 2)
      unset(_vt_${keyword}_${number})
    endforeach()
    unset(_vt_${keyword}_COUNT)
  endforeach()
  unset(_vt_unknown)
  # A single becomes _vt_<keyword>; a list becomes _vt_<keyword>_<number> and _vt_<keyword>_COUNT.
  set(keyword "")
  set(next 0)
  while(next LESS ARGC)
    set(word "${ARGV${next}}")
    math(EXPR next "${next} + 1")
    if(word IN_LIST flags)
      set(_vt_${word} TRUE)
      set(keyword "")
    elseif(word IN_LIST singles OR word IN_LIST lists)
      set(keyword "${word}")
      if(NOT DEFINED _vt_${keyword})
        set(_vt_${keyword} "")
        set(_vt_${keyword}_0 "")
        set(_vt_${keyword}_COUNT 0)
      endif()
    elseif(keyword IN_LIST singles)
      set(_vt_${keyword} "${word}")
      set(keyword "")
    elseif(keyword)
      set(_vt_${keyword}_${_vt_${keyword}_COUNT} "${word}")
      math(EXPR _vt_${keyword}_COUNT "${_vt_${keyword}_COUNT} + 1")
    else()
      string(APPEND _vt_unknown " \"${word}\"")
    endif()
  endwhile()
  _verbena_check()

  set(code "add_test(NAME")
  _verbena_append(code "${_vt_NAME}")
  string(APPEND code " COMMAND Verbena::verbena run")
  _verbena_append_options(code)
  if(DEFINED _vt_PAIR)
    string(APPEND code " --pair")
    _verbena_find_quotes(quotes)
    _verbena_command_of(_vt_PAIR_0 "${_vt_PAIR_0}" TRUE "${quotes}")
    _verbena_command_of(_vt_PAIR_1 "${_vt_PAIR_1}" TRUE "${quotes}")
    _verbena_append_list(code PAIR "")
  else()
    string(APPEND code " --")
    _verbena_command_of(_vt_COMMAND_0 "${_vt_COMMAND_0}" FALSE "")
    _verbena_append_list(code COMMAND "")
  endif()
  cmake_language(EVAL CODE "${code})")
  if(DEFINED _vt_TIMEOUT)
    # `verbena run` ends all that it has started. ctest's own time limit would leave it running.
    string(REGEX REPLACE "[.].*" "" limit "0${_vt_TIMEOUT}")
    math(EXPR limit "${limit} + 60")
    set_tests_properties("${_vt_NAME}" PROPERTIES TIMEOUT ${limit})
  endif()
endfunction()

if(NOT TARGET Verbena::gtest)
  get_target_property(_verbena_program Verbena::verbena IMPORTED_LOCATION)
  add_library(Verbena::gtest INTERFACE IMPORTED)
  set_target_properties(Verbena::gtest PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${Verbena_INCLUDE_DIR}"
    INTERFACE_COMPILE_DEFINITIONS "VERBENA_PROGRAM=\"${_verbena_program}\""
    INTERFACE_COMPILE_FEATURES cxx_std_17)
  unset(_verbena_program)
endif()
