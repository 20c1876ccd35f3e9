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
#     ARTIFACTS directory  keeps counters, packets and explanations of the run
#     OPTIONS option...    passes any other options to `verbena run`
#
# If the first word of a command is an executable that was defined before, it stands for its program. A shell runs the
# commands of PAIR.
#
# The target Verbena::gtest provides the header verbena/gtest.hpp.

# Whatever policies the project has chosen.
cmake_policy(VERSION 3.18)

# Appends one word to the code of a command, whatever the word contains. CMake's lists would split it at a semicolon, and
# join it with the next word at a backslash or an open bracket.
function(_verbena_append out word)
  string(REGEX REPLACE "([\\\"$])" "\\\\\\1" word "${word}")
  set(${out} "${${out}} \"${word}\"" PARENT_SCOPE)
endfunction()

# Appends the words of one of T_*'s lists, each behind the option if there is one.
function(_verbena_append_list out keyword option)
  set(number 0)
  while(DEFINED T_${keyword} AND number LESS T_${keyword}_COUNT)
    if(NOT option STREQUAL "")
      _verbena_append(${out} "${option}")
    endif()
    _verbena_append(${out} "${T_${keyword}_${number}}")
    math(EXPR number "${number} + 1")
  endwhile()
  set(${out} "${${out}}" PARENT_SCOPE)
endfunction()

# Appends the words of `verbena run` before the program.
function(_verbena_append_options out)
  if(T_PRIVATE)
    _verbena_append(${out} --private)
  endif()
  _verbena_append_list(${out} INJECT --inject)
  if(DEFINED T_SCENARIO)
    get_filename_component(scenario "${T_SCENARIO}" ABSOLUTE)
    if(NOT EXISTS "${scenario}")
      message(FATAL_ERROR "verbena_add_test(${T_NAME}): there is no scenario ${scenario}")
    endif()
    _verbena_append(${out} --scenario)
    _verbena_append(${out} "${scenario}")
  endif()
  if(DEFINED T_ARTIFACTS)
    get_filename_component(artifacts "${T_ARTIFACTS}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
    _verbena_append(${out} --artifacts)
    _verbena_append(${out} "${artifacts}")
  endif()
  if(DEFINED T_TIMEOUT)
    _verbena_append(${out} --timeout)
    _verbena_append(${out} "${T_TIMEOUT}")
  endif()
  if(T_REQUIRE_FIRED)
    _verbena_append(${out} --require-fired)
  endif()
  _verbena_append_list(${out} OPTIONS "")
  set(${out} "${${out}}" PARENT_SCOPE)
endfunction()

# Ends with an error if the arguments make no test. An empty rule or file is an error too, because the test would pass
# without its faults.
function(_verbena_check)
  set(test "verbena_add_test(${T_NAME})")
  if("${T_NAME}" STREQUAL "")
    message(FATAL_ERROR "verbena_add_test: NAME is missing")
  endif()
  if(DEFINED unknown)
    message(FATAL_ERROR "${test}: unknown:${unknown}")
  endif()
  if(DEFINED T_COMMAND AND DEFINED T_PAIR OR "${T_COMMAND_0}" STREQUAL "" AND NOT "${T_PAIR_COUNT}" STREQUAL "2")
    message(FATAL_ERROR "${test}: give COMMAND, or PAIR with two commands")
  endif()
  foreach(keyword SCENARIO ARTIFACTS)
    if(DEFINED T_${keyword} AND T_${keyword} STREQUAL "")
      message(FATAL_ERROR "${test}: ${keyword} names nothing")
    endif()
  endforeach()
  if(DEFINED T_INJECT AND "${T_INJECT_0}" STREQUAL "")
    message(FATAL_ERROR "${test}: INJECT without a rule")
  endif()
  if(DEFINED T_TIMEOUT AND NOT T_TIMEOUT MATCHES "^[0-9]*[.]?[0-9]+$")
    message(FATAL_ERROR "${test}: TIMEOUT wants seconds, such as 90 or 0.5, not \"${T_TIMEOUT}\"")
  endif()
  if(T_REQUIRE_FIRED AND NOT DEFINED T_SCENARIO AND NOT DEFINED T_INJECT)
    message(FATAL_ERROR "${test}: REQUIRE_FIRED wants rules: SCENARIO or INJECT")
  endif()
endfunction()

# Replaces an executable target at the beginning of the command by its program's path, between `quotes`.
function(_verbena_command_of out command quotes)
  if(command MATCHES "^([^ ]+)(.*)$")
    set(target "${CMAKE_MATCH_1}")
    set(arguments "${CMAKE_MATCH_2}")
    set(type "")
    if(TARGET "${target}")
      get_target_property(type "${target}" TYPE)
    endif()
    if(type STREQUAL "EXECUTABLE")
      set(command "${quotes}$<TARGET_FILE:${target}>${quotes}${arguments}")
    endif()
  endif()
  set(${out} "${command}" PARENT_SCOPE)
endfunction()

function(verbena_add_test)
  set(flags PRIVATE REQUIRE_FIRED)
  set(singles NAME SCENARIO TIMEOUT ARTIFACTS)
  set(lists COMMAND PAIR INJECT OPTIONS)
  foreach(keyword IN LISTS flags singles lists)
    unset(T_${keyword})
    unset(T_${keyword}_0)
    unset(T_${keyword}_COUNT)
  endforeach()
  unset(unknown)
  # A single becomes T_<keyword>; a list becomes T_<keyword>_<number> and T_<keyword>_COUNT.
  set(keyword "")
  set(next 0)
  while(next LESS ARGC)
    set(word "${ARGV${next}}")
    math(EXPR next "${next} + 1")
    if(word IN_LIST flags)
      set(T_${word} TRUE)
      set(keyword "")
    elseif(word IN_LIST singles OR word IN_LIST lists)
      set(keyword "${word}")
      if(NOT DEFINED T_${keyword})
        set(T_${keyword} "")
        set(T_${keyword}_0 "")
        set(T_${keyword}_COUNT 0)
      endif()
    elseif(keyword IN_LIST singles)
      set(T_${keyword} "${word}")
      set(keyword "")
    elseif(keyword)
      set(T_${keyword}_${T_${keyword}_COUNT} "${word}")
      math(EXPR T_${keyword}_COUNT "${T_${keyword}_COUNT} + 1")
    else()
      string(APPEND unknown " ${word}")
    endif()
  endwhile()
  _verbena_check()

  set(code "add_test(NAME")
  _verbena_append(code "${T_NAME}")
  string(APPEND code " COMMAND Verbena::verbena run")
  _verbena_append_options(code)
  if(DEFINED T_PAIR)
    string(APPEND code " --pair")
    _verbena_command_of(T_PAIR_0 "${T_PAIR_0}" "'")
    _verbena_command_of(T_PAIR_1 "${T_PAIR_1}" "'")
    _verbena_append_list(code PAIR "")
  else()
    string(APPEND code " --")
    _verbena_command_of(T_COMMAND_0 "${T_COMMAND_0}" "")
    _verbena_append_list(code COMMAND "")
  endif()
  cmake_language(EVAL CODE "${code})")
  if(DEFINED T_TIMEOUT)
    # `verbena run` ends all that it has started. ctest's own time limit would leave it running.
    string(REGEX REPLACE "[.].*" "" limit "0${T_TIMEOUT}")
    math(EXPR limit "${limit} + 60")
    set_tests_properties("${T_NAME}" PROPERTIES TIMEOUT ${limit})
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
