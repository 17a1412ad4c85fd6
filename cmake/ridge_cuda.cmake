# The CUDA backend needs NVIDIA's headers when it is compiled and nothing when it is loaded: libcuda, NVRTC and cuBLASLt are
# opened at run time. Kernels are compiled at run time too, so there is no CUDA language here (CMake 3.25 does not know
# C++20 for it and drops the flag in silence).
set(RIDGE_CUDA_BACKEND AUTO CACHE STRING "CUDA backend: AUTO (where cuda.h is found), ON (an error where it is not), OFF")
set_property(CACHE RIDGE_CUDA_BACKEND PROPERTY STRINGS AUTO ON OFF)

set(RIDGE_HAS_CUDA FALSE)
if(NOT RIDGE_CUDA_BACKEND STREQUAL "OFF")
  # Debian's linux/cuda.h and hwloc/cuda.h are other files; NO_CACHE so that a toolkit installed later is found.
  find_path(cuda_include cuda.h HINTS "$ENV{CUDA_HOME}/include" "$ENV{CUDA_PATH}/include" /usr/local/cuda/include NO_CACHE)
  set(cuda_version 0)
  if(cuda_include)
    file(STRINGS "${cuda_include}/cuda.h" line REGEX "^#define CUDA_VERSION [0-9]+")
    if(line MATCHES "CUDA_VERSION ([0-9]+)")
      set(cuda_version "${CMAKE_MATCH_1}")
    endif()
  endif()
  if(cuda_version GREATER_EQUAL 12000)  # tensor maps and cuLaunchKernelEx
    set(RIDGE_HAS_CUDA TRUE)
    message(STATUS "CUDA backend: headers of CUDA ${cuda_version} in ${cuda_include}")
  elseif(RIDGE_CUDA_BACKEND STREQUAL "ON")
    message(FATAL_ERROR "RIDGE_CUDA_BACKEND=ON but no cuda.h of CUDA 12.0 or newer (found: \"${cuda_include}\", version "
                        "${cuda_version}); install the CUDA toolkit or set CUDA_HOME")
  else()
    message(STATUS "CUDA backend: left out, no cuda.h of CUDA 12.0 or newer (set CUDA_HOME)")
  endif()
endif()

add_library(ridge_cuda_headers INTERFACE)
if(RIDGE_HAS_CUDA)
  target_include_directories(ridge_cuda_headers SYSTEM INTERFACE "${cuda_include}")
endif()

# ridge_backend_sources(<variable> [ALWAYS regex...]): takes out of a list of sources those of a backend that is left out. A file
# belongs to the CUDA backend when it lies in a folder cuda/ or is called cuda_*; absent.cpp in such a folder is its opposite,
# and ALWAYS names what works without the headers.
function(ridge_backend_sources variable)
  cmake_parse_arguments(arg "" "" "ALWAYS" ${ARGN})
  set(kept)
  foreach(source IN LISTS ${variable})
    file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}" "${source}")
    set(keep TRUE)
    if(path MATCHES "/cuda/absent\\.cpp$")
      if(RIDGE_HAS_CUDA)
        set(keep FALSE)
      endif()
    elseif(path MATCHES "/cuda(/|_[^/]*\\.cpp$)" AND NOT RIDGE_HAS_CUDA)
      set(keep FALSE)
      foreach(pattern IN LISTS arg_ALWAYS)
        if(path MATCHES "${pattern}")
          set(keep TRUE)
        endif()
      endforeach()
    endif()
    if(keep)
      list(APPEND kept "${source}")
    endif()
  endforeach()
  set(${variable} "${kept}" PARENT_SCOPE)
endfunction()

# ridge_embed(<target> <function> FOLDER folder FILES file...)
# Adds to the target the function std::span<const ridge::EmbeddedFile> <function>() with the text of the files, named by
# their paths below the folder, so that an installed program needs no source tree.
function(ridge_embed target function)
  cmake_parse_arguments(arg "" "FOLDER" "FILES" ${ARGN})
  string(MAKE_C_IDENTIFIER "${function}" name)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${output}" "-DFUNCTION=${function}" "-DFOLDER=${arg_FOLDER}" "-DFILES=${arg_FILES}"
            -P "${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake"
    DEPENDS ${arg_FILES} "${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake"
    COMMENT "Embedding the files of ${function}" VERBATIM)
  target_sources(${target} PRIVATE "${output}")
endfunction()
