# The program of c_interface.md is C11 and C++20, and without a GPU it ends by saying so.
#   cmake -DCC=cc -DCXX=c++ -DFLAGS= -DLIBRARY=libstagger.so -DSOURCE=. -DWORK=/tmp -P page.cmake
cmake_minimum_required(VERSION 3.25)
file(READ ${SOURCE}/workbench/c_interface.md page)
if(NOT page MATCHES "```c\n(stagger_problem [^`]*)```")
  message(FATAL_ERROR "c_interface.md has no program")
endif()
# What the page takes for granted: CUDA's allocator, and the caller's tensors and stream.
file(WRITE ${WORK}/page.inc "#include <stagger.h>
#include <stdio.h>
#include <stdlib.h>
static void cudaMalloc(void **memory, uint64_t bytes) {
  *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
}
static char tensors[9 * 16];
int main(void) {
  void *stream = NULL, *q = tensors, *k = tensors + 16, *v = tensors + 32, *out = tensors + 48;
  void *d_out = tensors + 64, *dq = tensors + 80, *dk = tensors + 96, *dv = tensors + 112;
  void *lse = tensors + 128;
${CMAKE_MATCH_1}
  return 0;
}
")
separate_arguments(FLAGS UNIX_COMMAND "${FLAGS}")
foreach(language IN ITEMS c cpp)
  configure_file(${WORK}/page.inc ${WORK}/page.${language} COPYONLY)
  set(compiler ${CC} -std=c11)
  if(language STREQUAL "cpp")
    set(compiler ${CXX} -std=c++20)
  endif()
  execute_process(
    COMMAND ${compiler} -Wall -Wextra -pedantic -Werror -Wno-missing-field-initializers ${FLAGS}
            -I ${SOURCE}/workbench ${WORK}/page.${language} ${LIBRARY} -o ${WORK}/page_${language}
    COMMAND_ERROR_IS_FATAL ANY)
  get_filename_component(folder ${LIBRARY} DIRECTORY)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${folder} CUDA_VISIBLE_DEVICES=
                          ${WORK}/page_${language}
    RESULT_VARIABLE code OUTPUT_VARIABLE said)
  if(NOT code EQUAL 1 OR NOT said MATCHES "CUDA|device")
    message(FATAL_ERROR "the page's program in ${language} ends with ${code}: ${said}")
  endif()
endforeach()
