// A candidate from a source file, and the sources that ship for campaigns to start from.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "record/campaign_block.h"
#include "record/candidate.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

// The source with NAME=VALUE definitions; a .cu file is a candidate for CUDA. Files that it includes in quotes come
// with it: those beside it, and kernels of this library by their path ("ops/matmul/cuda_wgmma.cu") with the headers of
// their own, which name the kernel layer as every candidate does.
Result<record::Candidate> candidate_of(const Context& context, const std::string& op, const std::string& path,
                                       const std::vector<std::string>& defines);
// The same of a text that lies nowhere: `file` is its name.
Result<record::Candidate> candidate_of_text(const Context& context, const std::string& op, const std::string& file,
                                            std::string text, const std::vector<std::string>& defines);

// What `ridge optimize NAME --on BACKEND` starts from.
struct ShippedKernel {
  std::filesystem::path file;
  std::optional<record::CampaignBlock> block;  // what it says that it is for
  std::string path;  // of a kernel of the library that needs a start (record/kernel_start.h): from src/
};
// For a processor the kernel of the library that describes itself as one of that operator (src/ops/*/cpu_*.cpp); for a
// GPU data/candidates/NAME_*, by its file name or the operator of its ridge-campaign block, else the kernel of the
// library that describes itself and has tunables (src/ops/*/cuda_*.cu). The error lists what there is.
Result<ShippedKernel> shipped_kernel(const Context& context, const std::string& name, const std::string& backend);

// The values of the configuration that `runs` names, "cuda_groups/coop_128x256_m2", as --define has them; nothing where
// it is of another kernel than the shipped one.
Result<std::vector<std::string>> values_of_configuration(const ShippedKernel& shipped, const std::string& runs);

}  // namespace ridge::service
