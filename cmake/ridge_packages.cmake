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
if(RIDGE_TESTS)
  find_package(GTest REQUIRED)           # libgtest-dev libgmock-dev
endif()

add_library(ridge_muparser INTERFACE)
target_include_directories(ridge_muparser SYSTEM INTERFACE "${MUPARSER_INCLUDE_DIR}")
target_link_libraries(ridge_muparser INTERFACE "${MUPARSER_LIBRARY}")
add_library(ridge_zstd INTERFACE)
target_include_directories(ridge_zstd SYSTEM INTERFACE "${ZSTD_INCLUDE_DIR}")
target_link_libraries(ridge_zstd INTERFACE "${ZSTD_LIBRARY}")
add_library(ridge_seccomp INTERFACE)
target_include_directories(ridge_seccomp SYSTEM INTERFACE "${SECCOMP_INCLUDE_DIR}")
target_link_libraries(ridge_seccomp INTERFACE "${SECCOMP_LIBRARY}")
