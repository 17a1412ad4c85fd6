// The builds in which the library's kernels ship, as the build of the library writes them to kernel_builds.json: what
// the compile check compiles and `ridge inspect matmul/cuda_wgmma` looks up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::record {

struct ShippedBuild {
  std::string kernel;  // "matmul/cuda_wgmma"
  std::string name;    // "pp_128x128/nt_bf16": configuration and variant
  std::string source;  // below src/: "ops/matmul/cuda_wgmma.cu"
  std::vector<std::string> defines;
  std::int64_t max_registers = 255;
  std::vector<std::string> sass;  // opcodes that every kernel of it must have; "SYMBOL:OPCODE": that one
  static void fields(auto& v, auto& self) {
    v("kernel", self.kernel);
    v("name", self.name);
    v("source", self.source);
    v("defines", self.defines);
    v("max_registers", self.max_registers);
    v("sass", self.sass);
  }
};

struct ShippedBuilds {
  std::vector<ShippedBuild> builds;
  static void fields(auto& v, auto& self) { v("builds", self.builds); }
};

}  // namespace ridge::record
