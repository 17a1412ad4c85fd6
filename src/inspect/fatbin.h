// The images inside a CUDA fat binary: cubins and PTX for one architecture each, plain or compressed with zstd or LZ4.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::inspect {

struct FatbinImage {
  bool is_ptx = false;
  int sm = 0;
  std::string bytes;
};

bool is_fatbin(std::string_view bytes);
// `bytes` may hold several fat binaries one after the other, as the section .nv_fatbin of a program does.
Result<std::vector<FatbinImage>> read_fatbin(std::string_view bytes);

}  // namespace ridge::inspect
