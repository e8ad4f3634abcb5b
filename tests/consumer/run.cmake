# Installs the package into an empty prefix, then configures, builds and runs the consumer.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${WORK})
foreach(command
    "--install;${BUILD};--prefix;${WORK}/prefix"
    "-S;${SOURCE};-B;${WORK}/build;-G;${GENERATOR};-DCMAKE_PREFIX_PATH=${WORK}/prefix"
    "--build;${WORK}/build")
  execute_process(COMMAND ${CMAKE_COMMAND} ${command} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
execute_process(COMMAND ${WORK}/build/consumer COMMAND_ERROR_IS_FATAL ANY)
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
