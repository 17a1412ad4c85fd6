# The PyTorch front end needs PyTorch's headers and libraries, and neither Python's headers nor CUDA: the library it builds
# serves every Python, and CPU and CUDA builds alike, of the minor version of PyTorch it was compiled against.
set(RIDGE_TORCH AUTO CACHE STRING "PyTorch front end: AUTO (where a supported torch is found), ON (an error where not), OFF")
set_property(CACHE RIDGE_TORCH PROPERTY STRINGS AUTO ON OFF)
set(RIDGE_TORCH_DIR "" CACHE PATH "Folder of the torch package; empty: that of .venv, else that of the Python found")
set(RIDGE_TORCH_OLDEST 2.11)

function(ridge_find_torch folder_variable version_variable)
  set(folders "${RIDGE_TORCH_DIR}")
  if(NOT RIDGE_TORCH_DIR)
    file(GLOB folders "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch")
    # Isolated builds hide the environment they install into from Python's path, but not from sysconfig.
    find_package(Python3 COMPONENTS Interpreter QUIET)
    if(Python3_EXECUTABLE)
      execute_process(COMMAND "${Python3_EXECUTABLE}" -c "import sysconfig; print(sysconfig.get_paths()['purelib'])"
                      OUTPUT_VARIABLE purelib OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      list(APPEND folders "${purelib}/torch")
    endif()
    if(DEFINED SKBUILD)  # a package is built for the Python that builds it
      list(REVERSE folders)
    endif()
  endif()
  foreach(folder IN LISTS folders)
    if(EXISTS "${folder}/include/torch/library.h" AND EXISTS "${folder}/version.py")
      file(STRINGS "${folder}/version.py" line REGEX "^__version__ = ")
      string(REGEX MATCH "[0-9]+\\.[0-9]+" version "${line}")
      set(${folder_variable} "${folder}" PARENT_SCOPE)
      set(${version_variable} "${version}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

set(RIDGE_HAS_TORCH FALSE)
if(NOT RIDGE_TORCH STREQUAL "OFF" AND NOT RIDGE_SANITIZE)  # a sanitizer's runtime would have to be in Python
  ridge_find_torch(torch_folder torch_version)
  if(torch_folder AND NOT torch_version VERSION_LESS RIDGE_TORCH_OLDEST)
    set(RIDGE_HAS_TORCH TRUE)
    message(STATUS "PyTorch front end: torch ${torch_version} in ${torch_folder}")
  else()
    set(reason "no torch ${RIDGE_TORCH_OLDEST} or newer (found: \"${torch_folder}\" ${torch_version}); install torch into the "
               "Python that builds, or set RIDGE_TORCH_DIR to the folder of the torch package")
    string(CONCAT reason ${reason})
    if(RIDGE_TORCH STREQUAL "ON")
      message(FATAL_ERROR "RIDGE_TORCH=ON but ${reason}")
    endif()
    message(STATUS "PyTorch front end: left out, ${reason}")
  endif()
endif()

if(RIDGE_HAS_TORCH)
  add_library(ridge_torch_headers INTERFACE)
  target_include_directories(ridge_torch_headers SYSTEM INTERFACE "${torch_folder}/include"
                                                                  "${torch_folder}/include/torch/csrc/api/include")
  # Not libtorch_cuda: what is needed of CUDA is reached through c10's interfaces, so that a CPU build loads it too.
  target_link_libraries(ridge_torch_headers INTERFACE "${torch_folder}/lib/libtorch_cpu.so" "${torch_folder}/lib/libc10.so")
endif()
