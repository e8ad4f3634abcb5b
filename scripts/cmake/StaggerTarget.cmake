# One library per folder: stagger_add_library(dag HEADERS … SOURCES … DEPENDS core PRIVATE … LINKED …).

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_EXTENSIONS OFF)

add_library(stagger_options INTERFACE)
target_compile_features(stagger_options INTERFACE cxx_std_20)
target_compile_options(stagger_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wshadow>
  # Where several files are compiled as one, names of one file are no business of another's.
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${CMAKE_UNITY_BUILD}>>:-Wno-shadow>
  # GCC 12 sees overlaps in std::string's own copies (its bug 105329).
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict -Wredundant-decls>
  # Clang means signs too by -Wconversion, GCC does not.
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:Clang>>:-Wno-sign-conversion>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${STAGGER_WERROR}>>:-Werror>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>
  $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${STAGGER_WERROR}>>:-Werror=all-warnings>
  $<$<BOOL:${STAGGER_SANITIZE}>:-fsanitize=address,undefined -fno-sanitize-recover=all
                                -fno-omit-frame-pointer>
  $<$<BOOL:${STAGGER_SANITIZE_THREAD}>:-fsanitize=thread -fno-omit-frame-pointer>)
# What the standard library asks of its callers: bounds that are ordered, elements that are there.
target_compile_definitions(stagger_options INTERFACE
  $<$<BOOL:${STAGGER_SANITIZE}>:_GLIBCXX_ASSERTIONS>)
target_link_options(stagger_options INTERFACE
  $<$<BOOL:${STAGGER_SANITIZE}>:-fsanitize=address,undefined>
  $<$<BOOL:${STAGGER_SANITIZE_THREAD}>:-fsanitize=thread>)

# What a library has goes into libstagger, which shows nothing but its C interface.
function(stagger_for_shared target)
  if(NOT STAGGER_SHARED)
    return()
  endif()
  set_target_properties(${target} PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

function(stagger_add_library name)
  cmake_parse_arguments(ARG "" "" "HEADERS;SOURCES;DEPENDS;PRIVATE;LINKED" ${ARGN})
  add_library(stagger_${name} STATIC)
  add_library(stagger::${name} ALIAS stagger_${name})
  target_sources(stagger_${name}
    PRIVATE ${ARG_SOURCES}
    PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARG_HEADERS})
  set_target_properties(stagger_${name} PROPERTIES EXPORT_NAME ${name} CXX_EXTENSIONS OFF)
  stagger_for_shared(stagger_${name})
  target_compile_features(stagger_${name} PUBLIC cxx_std_20)
  foreach(dependency IN LISTS ARG_DEPENDS)
    target_link_libraries(stagger_${name} PUBLIC stagger_${dependency})
  endforeach()
  # Packages stay inside the .cpp files; consumers of the installed package do not need them.
  foreach(package IN LISTS ARG_PRIVATE)
    target_link_libraries(stagger_${name} PRIVATE $<BUILD_INTERFACE:${package}>)
  endforeach()
  # But for libraries, which a static one has to name: stagger-config.cmake finds them again.
  target_link_libraries(stagger_${name} PRIVATE ${ARG_LINKED})
  target_link_libraries(stagger_${name} PRIVATE $<BUILD_INTERFACE:stagger_options>)
  set_property(GLOBAL APPEND PROPERTY STAGGER_LIBRARIES stagger_${name})
  set_property(GLOBAL APPEND PROPERTY STAGGER_HEADERS ${ARG_HEADERS})
endfunction()
