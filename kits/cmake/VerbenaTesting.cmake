# SPDX-License-Identifier: BSD-2-Clause
# Defines tests of RDMA programs. find_package(Verbena) includes this file.
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
# If the first word of a command is a target that was defined before, it stands for its program. A shell runs the
# commands of PAIR.
#
# The target Verbena::gtest provides the header verbena/gtest.hpp.

# Appends one word, whatever it contains: a semicolon does not split it, and an empty word stays.
function(_verbena_append out word)
  string(REPLACE ";" "\\;" word "${word}")
  if(word STREQUAL "")
    set(word "$<0:>")
  endif()
  list(APPEND ${out} "${word}")
  set(${out} "${${out}}" PARENT_SCOPE)
endfunction()

# Makes the words of `verbena run` before the program, from the arguments that verbena_add_test has parsed.
function(_verbena_run_words out)
  set(words run)
  if(T_PRIVATE)
    list(APPEND words --private)
  endif()
  foreach(rule IN LISTS T_INJECT)
    list(APPEND words --inject "${rule}")
  endforeach()
  if(DEFINED T_SCENARIO)
    get_filename_component(T_SCENARIO "${T_SCENARIO}" ABSOLUTE)
    if(NOT EXISTS "${T_SCENARIO}")
      message(FATAL_ERROR "verbena_add_test: there is no scenario ${T_SCENARIO}")
    endif()
    list(APPEND words --scenario "${T_SCENARIO}")
  endif()
  if(DEFINED T_ARTIFACTS)
    get_filename_component(T_ARTIFACTS "${T_ARTIFACTS}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
    list(APPEND words --artifacts "${T_ARTIFACTS}")
  endif()
  if(DEFINED T_TIMEOUT)
    list(APPEND words --timeout ${T_TIMEOUT})
  endif()
  if(T_REQUIRE_FIRED)
    list(APPEND words --require-fired)
  endif()
  foreach(option IN LISTS T_OPTIONS)
    _verbena_append(words "${option}")
  endforeach()
  set(${out} "${words}" PARENT_SCOPE)
endfunction()

# Replaces a target at the beginning of the command by its program's path, between `quotes`.
function(_verbena_command_of out command quotes)
  if(command MATCHES "^([^ ]+)(.*)$")
    if(TARGET "${CMAKE_MATCH_1}")
      set(command "${quotes}$<TARGET_FILE:${CMAKE_MATCH_1}>${quotes}${CMAKE_MATCH_2}")
    endif()
  endif()
  set(${out} "${command}" PARENT_SCOPE)
endfunction()

function(verbena_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 T "PRIVATE;REQUIRE_FIRED" "NAME;SCENARIO;TIMEOUT;ARTIFACTS" "COMMAND;PAIR;INJECT;OPTIONS")
  if(NOT DEFINED T_NAME)
    message(FATAL_ERROR "verbena_add_test: NAME is missing")
  endif()
  if(DEFINED T_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "verbena_add_test(${T_NAME}): unknown: ${T_UNPARSED_ARGUMENTS}")
  endif()
  list(LENGTH T_PAIR sides)
  if(DEFINED T_COMMAND AND DEFINED T_PAIR OR NOT DEFINED T_COMMAND AND NOT sides EQUAL 2)
    message(FATAL_ERROR "verbena_add_test(${T_NAME}): give COMMAND, or PAIR with two commands")
  endif()
  if(T_REQUIRE_FIRED AND NOT DEFINED T_SCENARIO AND NOT DEFINED T_INJECT)
    message(FATAL_ERROR "verbena_add_test(${T_NAME}): REQUIRE_FIRED wants rules: SCENARIO or INJECT")
  endif()
  _verbena_run_words(words)
  if(sides EQUAL 2)
    list(APPEND words --pair)
    foreach(side IN LISTS T_PAIR)
      _verbena_command_of(side "${side}" "'")
      _verbena_append(words "${side}")
    endforeach()
  else()
    list(APPEND words --)
    set(program "")
    foreach(word IN LISTS T_COMMAND)
      if(program STREQUAL "")
        _verbena_command_of(program "${word}" "")
        set(word "${program}")
      endif()
      _verbena_append(words "${word}")
    endforeach()
  endif()
  add_test(NAME ${T_NAME} COMMAND Verbena::verbena ${words})
  if(DEFINED T_TIMEOUT)
    # `verbena run` ends all that it has started. ctest's own time limit would leave it running.
    string(REGEX REPLACE "[.].*" "" limit "0${T_TIMEOUT}")
    math(EXPR limit "${limit} + 60")
    set_tests_properties(${T_NAME} PROPERTIES TIMEOUT ${limit})
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
