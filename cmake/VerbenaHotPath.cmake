# For the folders whose code stands on the way of a packet: verbena_hot_path().
#
# gcc for x86 clears and copies structures by `rep stos` and `rep movs`, which take longer to begin
# than much of what a packet needs, and many times as long on an emulated processor.
include(CheckCXXCompilerFlag)

set(VERBENA_NO_REP
  -mmemset-strategy=vector_loop:512:noalign,libcall:-1:noalign
  -mmemcpy-strategy=vector_loop:512:noalign,libcall:-1:noalign)
check_cxx_compiler_flag("${VERBENA_NO_REP}" VERBENA_HAS_NO_REP)

macro(verbena_hot_path)
  if(VERBENA_HAS_NO_REP)
    add_compile_options(${VERBENA_NO_REP})
  endif()
endmacro()
