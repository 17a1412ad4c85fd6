// What a campaign of a candidate source is about unless the user says otherwise, written in a comment of the source:
//
//   /* ridge-campaign
//   op = "gemm"
//   cases = ["m=4096 n=4096 k=4096 dtype=bf16 layout=nt"]
//   start = { INSTRUCTION_N = 128 }   # instead of defaults of tunables (optional)
//   fixed = ["PARTS"]                 # tunables that this campaign does not vary (optional)
//   */
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::record {

struct CampaignBlock {
  std::string op;
  std::vector<std::string> cases;  // as on a command line, each a case of its own
  std::map<std::string, std::int64_t> start;
  std::vector<std::string> fixed_tunables;
  // The parameters that are the same in all of them: what the kernel is for. "dtype=bf16", "layout=nt".
  [[nodiscard]] std::vector<std::string> fixed() const;
};

// Nothing when the source declares none. An error names the line and the key.
Result<std::optional<CampaignBlock>> parse_campaign_block(std::string_view source);

// The source with these values in its `start`, beside those that are there.
Result<std::string> text_with_start(std::string_view source, const std::map<std::string, std::int64_t>& values);

}  // namespace ridge::record
