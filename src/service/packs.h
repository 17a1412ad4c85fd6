// Packs of kernels compiled ahead of time, so that a first call on a GPU compiles nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "record/kernel_pack.h"
#include "ridge/result.h"
#include "service/context.h"
#include "service/shape_file.h"

namespace ridge::service {

struct PackRequest {
  std::string op = std::string(kAllOperators);
  std::vector<std::string> words;  // with no word and no file of shapes: data/shapes/kernels.txt
  std::string shapes;              // a file of cases
  std::string pack;                // the file; empty: packs/kernels.pack in the cache
  std::string targets = "auto";    // architectures with commas; auto: the GPU here, else sm_90a
  std::int64_t configurations = 1;
};
struct BuiltPack {
  std::string path;
  record::KernelPack pack;
};
// One pack for each architecture, `on_built` as soon as it is made.
Result<std::vector<BuiltPack>> build_packs(const Context& context, const PackRequest& request,
                                           const std::function<void(const BuiltPack&)>& on_built = {});

Result<BuiltPack> read_pack(const Context& context, const std::string& pack);

// Whether every kernel has its digest and is what this library would compile; what is wrong, a line each.
struct CheckedPack {
  BuiltPack built;
  std::vector<std::string> problems;
};
Result<CheckedPack> verify_pack(const Context& context, const std::string& pack);

std::filesystem::path default_pack(const Context& context);

}  // namespace ridge::service
