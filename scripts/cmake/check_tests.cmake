# Checks that each test that is written is one that the build knows: a file in no list is never run.
#   cmake -DROOT=. -P scripts/cmake/check_tests.cmake
cmake_minimum_required(VERSION 3.25)
cmake_path(ABSOLUTE_PATH ROOT NORMALIZE)

file(READ ${ROOT}/tests/CMakeLists.txt lists)
string(REGEX MATCHALL "scripts [a-z ]+\\)" scripts "${lists}")
file(GLOB files RELATIVE ${ROOT}/tests ${ROOT}/tests/*/*_test.cpp ${ROOT}/tests/cli/*.sh)
list(REMOVE_ITEM files cli/check.sh)  # what the scripts have in common

# Sources are named by themselves in their folder's list, or with the folder in another.
function(list_of file result)
  cmake_path(GET file PARENT_PATH folder)
  string(REGEX MATCH "stagger_add_tests\\(${folder}[ \n][^)]*\\)" own "${lists}")
  string(REGEX REPLACE "([ \n])([a-z])" "\\1${folder}/\\2" own "${own}")
  set(${result} "${own} ${lists}" PARENT_SCOPE)
endfunction()

set(unknown)
foreach(file IN LISTS files)
  if(file MATCHES "/([a-z_]+)\\.sh$")
    set(known "${scripts}")
    set(name ${CMAKE_MATCH_1})
  else()
    list_of(${file} known)
    string(REPLACE "." "\\." name ${file})
  endif()
  if(NOT known MATCHES "[ \n]${name}[ \n)]")
    list(APPEND unknown ${file})
  endif()
endforeach()
list(LENGTH files seen)
if(seen LESS 150 OR unknown)
  message(FATAL_ERROR "${seen} tests seen; in no list of tests/CMakeLists.txt: ${unknown}")
endif()
message(STATUS "${seen} tests are known")
