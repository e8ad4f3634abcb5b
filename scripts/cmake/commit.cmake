# Writes the source that says which commit is built; the file changes only when that does.
#   cmake -DROOT=. -DOUTPUT=commit.cpp -P scripts/cmake/commit.cmake
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${ROOT} rev-parse --short=10 HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")
else()
  execute_process(COMMAND git -C ${ROOT} diff --quiet HEAD ERROR_QUIET RESULT_VARIABLE differs)
  if(differs)
    string(APPEND commit "+")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT
  "namespace stagger::workbench {\nconst char* commit();\nconst char* commit() {\n  return \"@commit@\";\n}\n}\n")
