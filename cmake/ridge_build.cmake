# Compiler settings and the two functions every folder uses.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache keeps nothing that was compiled with a precompiled header unless it is told that __TIME__ and late macros do not matter.
  # Paths within the project are relative in what it compares, so that every clone and work tree shares one cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros
                                  "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${CCACHE}")
endif()
find_program(LLD ld.lld)
if(LLD)
  add_link_options(-fuse-ld=lld)
endif()

# Warnings are errors for our own code only; dependencies come in as SYSTEM.
add_library(ridge_warnings INTERFACE)
# Designated initialisers that leave fields at their defaults are how configuration is written here.
target_compile_options(ridge_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
                                             -Wno-missing-field-initializers
                                             # false alarms of gcc 12 on std::string (its bugs 105593, 105651)
                                             $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-restrict>)

set(RIDGE_SANITIZE "" CACHE STRING "Sanitizers for everything, for instance address,undefined or thread")
if(RIDGE_SANITIZE)
  add_compile_options(-fsanitize=${RIDGE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${RIDGE_SANITIZE})
  # gcc 12 warns inside its own AVX-512 header when instrumenting; the release build is where warnings are errors.
  target_compile_options(ridge_warnings INTERFACE -Wno-error)
endif()

# Half of the compiler's time goes into the headers of the standard library and of fmt, so these are compiled once.
# OFF shows a missing #include, which a precompiled header hides.
option(RIDGE_PRECOMPILED_HEADERS "Compile the headers of other libraries once" ON)

# Several source files of LIGHT code go through the compiler as one, so that it reads the project's own headers once for all of them: a cold
# build takes half of the time. OFF for work on such code: then a change compiles its own file only.
option(RIDGE_UNITY_BUILD "Compile LIGHT code in batches of source files" ON)

# ridge_fast_compile(<target> [LIGHT]): lets a library or program use the precompiled headers. LIGHT is for code that never runs
# while something is measured (records, the engine, the report, the command line): optimised by -O1, a quarter less of the
# compiler's time, and compiled in batches. Its files share one unnamed namespace, then: a name in it is used once in a module.
function(ridge_fast_compile target)
  cmake_parse_arguments(arg "LIGHT" "" "" ${ARGN})
  if(arg_LIGHT)
    set(level $<$<CONFIG:Release>:-O1>)
    if(RIDGE_SANITIZE)
      set(level -O0)
    endif()
    set(headers ridge_headers_light)
    target_compile_options(${target} PRIVATE ${level})
    set_target_properties(${target} PROPERTIES UNITY_BUILD ${RIDGE_UNITY_BUILD} UNITY_BUILD_BATCH_SIZE 8)
  else()
    set(level)
    set(headers ridge_headers)
  endif()
  if(NOT RIDGE_PRECOMPILED_HEADERS)
    return()
  endif()
  # What is compiled for a program (-fPIE) cannot be used in a library (-fPIC).
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    string(APPEND headers _program)
  endif()
  if(NOT TARGET ${headers})
    file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/${headers}.cpp" CONTENT "int main() {}\n")
    if(type STREQUAL "EXECUTABLE")
      add_executable(${headers} EXCLUDE_FROM_ALL "${CMAKE_BINARY_DIR}/generated/${headers}.cpp")
    else()
      add_library(${headers} OBJECT EXCLUDE_FROM_ALL "${CMAKE_BINARY_DIR}/generated/${headers}.cpp")
    endif()
    target_precompile_headers(${headers} PRIVATE <fmt/format.h> <fmt/ranges.h> <algorithm> <array> <charconv> <cmath>
                                                 <cstdint> <cstring> <filesystem> <functional> <map> <memory> <optional>
                                                 <set> <span> <string> <string_view> <utility> <variant> <vector>)
    target_link_libraries(${headers} PRIVATE fmt::fmt ridge_warnings)
    target_compile_options(${headers} PRIVATE ${level})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${headers})
  # gcc 12 does not know any more that a precompiled std::string is the system's, and warns falsely inside it.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds -Wno-stringop-overflow>)
endfunction()

# ridge_module(<name> [LIGHT] [DEPENDS module...] [LINK library...] [PRIVATE_LINK library...] [WITHOUT_CUDA regex...])
# The static library ridge_<name> (alias ridge::<name>) from every .cpp of the current folder and its subfolders; of the CUDA
# backend's only those named by WITHOUT_CUDA when it is left out (ridge_backend_sources). LIGHT: see ridge_fast_compile.
function(ridge_module name)
  cmake_parse_arguments(arg "LIGHT" "" "DEPENDS;LINK;PRIVATE_LINK;EXCLUDE;WITHOUT_CUDA" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  foreach(pattern IN LISTS arg_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${pattern}")
  endforeach()
  ridge_backend_sources(sources ALWAYS ${arg_WITHOUT_CUDA})
  add_library(ridge_${name} STATIC ${sources})
  add_library(ridge::${name} ALIAS ridge_${name})
  target_include_directories(ridge_${name} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                                                  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>")
  foreach(module IN LISTS arg_DEPENDS)
    target_link_libraries(ridge_${name} PUBLIC ridge_${module})
  endforeach()
  target_link_libraries(ridge_${name} PUBLIC ${arg_LINK} PRIVATE ${arg_PRIVATE_LINK} $<BUILD_INTERFACE:ridge_warnings>)
  if(arg_LIGHT)
    ridge_fast_compile(ridge_${name} LIGHT)
  else()
    ridge_fast_compile(ridge_${name})
  endif()
endfunction()

# Settings of test programs: most tests' own code is short-running, but its compilation is waited for, and the compiler spends half of
# its time on the headers of GoogleTest and the standard library and most of the rest on optimising. LEVEL is -O1 for those that compute.
function(ridge_test_settings target level)
  target_link_libraries(${target} PRIVATE GTest::gtest GTest::gmock ridge_warnings)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release,Debug>:${level}>)
  if(RIDGE_SANITIZE MATCHES undefined)  # what is watched is the library; in GoogleTest's macros it is a third of the time
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
endfunction()

# ridge_test(<folder> [COMPUTES] [BATCHED] [LINK library...] [LABELS label...] [TIMEOUT seconds])
# The GoogleTest program test_<folder> from every *_test.cpp of the current folder, one CTest test. COMPUTES is for tests that spend
# time in code of their own or in inline functions, which the linker takes from the test: these are optimised. BATCHED is for folders
# of many files that include much: they are compiled in batches, whose files share one unnamed namespace.
function(ridge_test name)
  cmake_parse_arguments(arg "COMPUTES;BATCHED" "TIMEOUT" "LINK;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(RIDGE_SANITIZE)
    math(EXPR arg_TIMEOUT "3 * ${arg_TIMEOUT}")
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*_test.cpp")
  ridge_backend_sources(sources)
  add_executable(test_${name} ${sources})
  target_link_libraries(test_${name} PRIVATE ${arg_LINK} ridge_test_places GTest::gtest_main)
  if(arg_COMPUTES)
    ridge_test_settings(test_${name} -O1)
    target_precompile_headers(test_${name} REUSE_FROM ridge_test_headers_computing)
  else()
    ridge_test_settings(test_${name} -O0)
    target_precompile_headers(test_${name} REUSE_FROM ridge_test_headers)
  endif()
  target_include_directories(test_${name} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  if(arg_BATCHED)
    set_target_properties(test_${name} PROPERTIES UNITY_BUILD ${RIDGE_UNITY_BUILD} UNITY_BUILD_BATCH_SIZE 5)
  endif()
  add_test(NAME ${name} COMMAND test_${name} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}")
endfunction()

# ridge_test_of_lesser_processors(<folder> <filter>): runs those cases of test_<folder> again with the code for AVX2 and with the
# portable code, as on a processor that has no more (RIDGE_CPU_LIMIT, src/base/environment.h). Skipped where it has no more.
function(ridge_test_of_lesser_processors name filter)
  target_sources(test_${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/lesser_processor.cpp")
  foreach(limit avx2 portable)
    add_test(NAME ${name}_${limit} COMMAND test_${name} --gtest_brief=1 "--gtest_filter=${filter}")
    set_tests_properties(${name}_${limit} PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77
                                              ENVIRONMENT "RIDGE_CPU_LIMIT=${limit};RIDGE_TEST_OF_LESSER_PROCESSOR=1")
  endforeach()
endfunction()
