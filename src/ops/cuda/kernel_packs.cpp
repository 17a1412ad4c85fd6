#include "ops/cuda/kernel_packs.h"

#include <algorithm>

#include "base/error.h"
#include "record/kernel_pack.h"

namespace ridge::ops {

namespace fs = std::filesystem;

KernelPacks KernelPacks::open(const std::vector<fs::path>& places) {
  KernelPacks packs;
  for (const fs::path& place : places) {
    std::error_code ignored;
    std::vector<fs::path> files;
    if (fs::is_directory(place, ignored)) {
      for (const auto& entry : fs::directory_iterator(place, ignored)) {
        if (entry.path().extension() == ".pack") files.push_back(entry.path());
      }
      std::sort(files.begin(), files.end());
    } else if (fs::exists(place, ignored)) {
      files.push_back(place);
    }
    for (const fs::path& file : files) {
      auto head = record::read_pack_head(file);
      if (head) {
        packs.packs_.push_back({file, std::move(*head)});
      } else {
        packs.unreadable_.push_back(head.error().text());
      }
    }
  }
  return packs;
}

Result<std::optional<std::string>> KernelPacks::find(const std::string& key) const {
  for (auto pack = packs_.rbegin(); pack != packs_.rend(); ++pack) {
    const auto kernel = record::find_packed(pack->head, key);
    if (!kernel) continue;
    RIDGE_TRY(code, record::read_packed(pack->path, pack->head.size(), *kernel));
    return std::optional(std::move(code));
  }
  return std::optional<std::string>();
}

}  // namespace ridge::ops
