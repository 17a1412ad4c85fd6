// A cache folder of the program's own: tables that its user's `ridge tune` left decide nothing here, and none is left
// for them.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace ridge::dispatch {

// Makes `folder` that of RIDGE_CACHE_DIR, and what was before again at the end.
class CacheIn {
 public:
  explicit CacheIn(const std::string& folder) {
    if (const char* before = std::getenv("RIDGE_CACHE_DIR")) before_ = before;
    ::setenv("RIDGE_CACHE_DIR", folder.c_str(), 1);
  }
  ~CacheIn() {
    if (before_) {
      ::setenv("RIDGE_CACHE_DIR", before_->c_str(), 1);
    } else {
      ::unsetenv("RIDGE_CACHE_DIR");
    }
  }
  CacheIn(const CacheIn&) = delete;
  CacheIn& operator=(const CacheIn&) = delete;

 private:
  std::optional<std::string> before_;
};

}  // namespace ridge::dispatch
