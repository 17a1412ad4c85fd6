# Every dependency, found once. scripts/setup installs the Debian packages named beside each.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)               # libfmt-dev
find_package(nlohmann_json REQUIRED)     # nlohmann-json3-dev
find_package(OpenSSL REQUIRED COMPONENTS Crypto)  # libssl-dev
find_package(yaml-cpp REQUIRED)          # libyaml-cpp-dev
find_package(tomlplusplus REQUIRED)      # libtomlplusplus-dev
find_package(CLI11 REQUIRED)             # libcli11-dev
find_path(MUPARSER_INCLUDE_DIR muParser.h REQUIRED)       # libmuparser-dev
find_library(MUPARSER_LIBRARY muparser REQUIRED)
find_path(ZSTD_INCLUDE_DIR zstd.h REQUIRED)               # libzstd-dev
find_library(ZSTD_LIBRARY zstd REQUIRED)
find_path(SECCOMP_INCLUDE_DIR seccomp.h REQUIRED)         # libseccomp-dev
find_library(SECCOMP_LIBRARY seccomp REQUIRED)
find_package(PkgConfig REQUIRED)                          # pkg-config
pkg_check_modules(HTTPLIB REQUIRED cpp-httplib)           # libcpp-httplib-dev
if(RIDGE_TESTS)
  find_package(GTest REQUIRED)           # libgtest-dev libgmock-dev
endif()

# A target with the property RIDGE_SELF_CONTAINED, a library that is loaded into other programs, carries libcrypto in it, where there is
# an archive of it; all others share the system's.
find_library(CRYPTO_ARCHIVE libcrypto.a)
mark_as_advanced(CRYPTO_ARCHIVE)
if(NOT CRYPTO_ARCHIVE)
  message(STATUS "no libcrypto.a: the PyTorch front end shares the system's libcrypto and is for this machine only")
endif()
set(ridge_crypto $<BUILD_INTERFACE:$<IF:$<AND:$<BOOL:$<TARGET_PROPERTY:RIDGE_SELF_CONTAINED>>,$<BOOL:${CRYPTO_ARCHIVE}>>,${CRYPTO_ARCHIVE},OpenSSL::Crypto>>
                 $<INSTALL_INTERFACE:OpenSSL::Crypto>)
add_library(ridge_muparser INTERFACE)
target_include_directories(ridge_muparser SYSTEM INTERFACE "${MUPARSER_INCLUDE_DIR}")
target_link_libraries(ridge_muparser INTERFACE "${MUPARSER_LIBRARY}")
add_library(ridge_zstd INTERFACE)
target_include_directories(ridge_zstd SYSTEM INTERFACE "${ZSTD_INCLUDE_DIR}")
target_link_libraries(ridge_zstd INTERFACE "${ZSTD_LIBRARY}")
add_library(ridge_seccomp INTERFACE)
target_include_directories(ridge_seccomp SYSTEM INTERFACE "${SECCOMP_INCLUDE_DIR}")
target_link_libraries(ridge_seccomp INTERFACE "${SECCOMP_LIBRARY}")
# Its classes have other layouts without the macros that the shared library was built with, so that a call would write elsewhere: they are
# set with the library, in one place.
add_library(ridge_httplib INTERFACE)
target_compile_options(ridge_httplib INTERFACE ${HTTPLIB_CFLAGS})
target_link_libraries(ridge_httplib INTERFACE ${HTTPLIB_LINK_LIBRARIES} Threads::Threads)
