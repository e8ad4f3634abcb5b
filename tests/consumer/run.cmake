# Installs the package into an empty prefix, then configures, builds and runs the consumers: one in
# C++ and, where the C interface is there, one in C, by CMake and by pkg-config.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix
  COMMAND_ERROR_IS_FATAL ANY)
# No path of this machine, but those of the package, goes with it.
file(GLOB file ${WORK}/prefix/lib*/cmake/stagger/stagger-targets.cmake
  ${WORK}/prefix/lib/*/cmake/stagger/stagger-targets.cmake)
file(READ ${file} targets)
if(targets MATCHES "/usr/[^;\"]*\\.(a|so)")
  message(FATAL_ERROR "the package names a library by its path: ${CMAKE_MATCH_0}")
endif()

function(build_and_run source name)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${source} -B ${WORK}/${name} -G ${GENERATOR}
    -DCMAKE_PREFIX_PATH=${WORK}/prefix -DC_SOURCE=${C_SOURCE} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/${name} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${WORK}/${name}/${name} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

build_and_run(${SOURCE} consumer)
if(C_SOURCE)
  build_and_run(${SOURCE}/c c_consumer)
  file(GLOB package ${WORK}/prefix/lib*/pkgconfig ${WORK}/prefix/lib/*/pkgconfig)
  if(NOT EXISTS ${package}/stagger.pc)
    message(FATAL_ERROR "stagger.pc is not installed")
  endif()
  find_program(PKG_CONFIG pkg-config)
  if(PKG_CONFIG)
    set(ENV{PKG_CONFIG_PATH} ${package})
    execute_process(COMMAND ${PKG_CONFIG} --cflags --libs stagger OUTPUT_VARIABLE flags
      COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(flags UNIX_COMMAND "${flags}")
    execute_process(COMMAND ${CC} -std=c11 ${C_SOURCE} ${flags} -lm -o ${WORK}/by_pkg_config
      COMMAND_ERROR_IS_FATAL ANY)
    cmake_path(GET package PARENT_PATH libraries)
    execute_process(COMMAND ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${libraries}
      ${WORK}/by_pkg_config COMMAND_ERROR_IS_FATAL ANY)
  endif()
endif()
if(NOT CLI)
  return()
endif()
execute_process(COMMAND ${WORK}/prefix/bin/stagger --version COMMAND_ERROR_IS_FATAL ANY)
foreach(file share/man/man1/stagger.1 share/bash-completion/completions/stagger
             share/zsh/site-functions/_stagger share/fish/vendor_completions.d/stagger.fish)
  if(NOT EXISTS ${WORK}/prefix/${file})
    message(FATAL_ERROR "${file} is not installed")
  endif()
endforeach()
