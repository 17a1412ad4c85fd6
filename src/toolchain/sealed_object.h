// A built object in memory that no one can change any more, not even its owner: what was verified is what is loaded,
// whatever becomes of the file that it was read from.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "ridge/result.h"

namespace ridge::toolchain {

class SealedObject {
 public:
  static Result<std::shared_ptr<const SealedObject>> create(std::string_view bytes);
  SealedObject(const SealedObject&) = delete;
  SealedObject& operator=(const SealedObject&) = delete;
  ~SealedObject();

  // Can be opened and loaded by this process for as long as this object lives.
  [[nodiscard]] std::filesystem::path path() const;

 private:
  explicit SealedObject(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace ridge::toolchain
