// What machine code says about a kernel, without running it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/inspection.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

struct InspectRequest {
  std::string file;     // or a shipped kernel, which is built for this: matmul/cuda_wgmma
  std::string kernel;   // only kernels whose name contains this
  std::string product;  // of the spec database, for occupancy; empty: none
  std::int64_t threads = 0, dynamic_shared = 0;
  bool expect_matrix = false, no_listing = false, assembly = false;
};
Result<std::vector<record::Inspection>> inspect_files(const Context& context, const InspectRequest& request);
// A kernel spills or takes a wrong path.
bool has_bad_verdict(const std::vector<record::Inspection>& inspections);

// In which instructions and resources two images differ: that of `request`, and that of the file `other`.
Result<std::vector<record::InstructionDifference>> compare_files(const Context& context, const InspectRequest& request,
                                                                 const std::string& other);

}  // namespace ridge::service
