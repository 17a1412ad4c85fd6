// A private directory that is removed when this object goes, unless the cache has taken it by then.
#pragma once

#include <filesystem>
#include <system_error>

namespace ridge::toolchain {

struct Scratch {
  std::filesystem::path path;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace ridge::toolchain
