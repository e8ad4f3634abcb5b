# CUDA, if nvcc is found: sets STAGGER_HAS_CUDA. A build without it has the same commands.

set(STAGGER_CUDA AUTO CACHE STRING "Build the CUDA kernels: AUTO (if nvcc is found), ON or OFF")
set_property(CACHE STAGGER_CUDA PROPERTY STRINGS AUTO ON OFF)
# sm_80 and its PTX serve every GPU from A100 on; wgmma and setmaxnreg exist in sm_90a alone.
# Set before the language is enabled: CMake's own default is a GPU that nvcc 13 no longer knows.
set(CMAKE_CUDA_ARCHITECTURES "80;90a-real" CACHE STRING "GPUs to compile for")

set(STAGGER_HAS_CUDA OFF)
if(STAGGER_CUDA)
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(STAGGER_NVCC nvcc PATHS /usr/local/cuda/bin)
    mark_as_advanced(STAGGER_NVCC)
    if(STAGGER_NVCC)
      set(CMAKE_CUDA_COMPILER ${STAGGER_NVCC})
    endif()
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    # CMake 3.25 knows nvcc only up to C++17.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    find_package(CUDAToolkit 12 REQUIRED)
    set(STAGGER_HAS_CUDA ON)
  elseif(NOT STAGGER_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "STAGGER_CUDA is ON, and nvcc is not found")
  endif()
endif()
message(STATUS "CUDA kernels: ${STAGGER_HAS_CUDA}")
