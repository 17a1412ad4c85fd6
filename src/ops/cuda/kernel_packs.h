// Packs of compiled kernels (record/kernel_pack.h) that a start may take code from: what `ridge kernels build` makes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ridge/result.h"

namespace ridge::ops {

class KernelPacks {
 public:
  // Files, and folders of *.pack; what is not there holds nothing. Later ones win. One that cannot be read is left out.
  static KernelPacks open(const std::vector<std::filesystem::path>& places);

  // The code of that key, or nothing. An error when a pack has it and is damaged.
  [[nodiscard]] Result<std::optional<std::string>> find(const std::string& key) const;
  [[nodiscard]] bool empty() const { return packs_.empty(); }
  // Why packs were left out, a sentence each.
  [[nodiscard]] const std::vector<std::string>& unreadable() const { return unreadable_; }

 private:
  struct Pack {
    std::filesystem::path path;
    std::string head;
  };
  std::vector<Pack> packs_;
  std::vector<std::string> unreadable_;
};

}  // namespace ridge::ops
