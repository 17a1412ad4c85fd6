// Cases written on a command line.
#pragma once

#include <string>
#include <vector>

#include "record/case.h"

namespace ridge::record {

// Words of one command line as cases of `op`, every combination, the last word varying fastest. Each word is
// name=value; a value may be a list whose items are values or ranges, both ends included:
//   m=256,512,1000      three values
//   m=512..4096x2       512 1024 2048 4096; also 512..4096*2 and 512:4096:*2, which some shells expand
//   m=64..256+64        64 128 192 256; also 64:256:64
//   m=1..4              1 2 3 4
// A word with spaces is a case of its own, to which the plain words are added: "m=64 n=8" "m=8 n=64" dtype=f32,bf16.
// Errors name the word: an empty item, a range that runs backwards or never ends, more than 10 000 cases.
Result<std::vector<Case>> expand_cases(const std::string& op, const std::vector<std::string>& words);

}  // namespace ridge::record
