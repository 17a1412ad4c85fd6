// What a campaign won becomes part of the library's sources, checked and measured as the library builds it.
#pragma once

#include <string>

#include "record/promotion.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

struct PromoteRequest {
  std::string campaign;  // a folder; or `revert`: what that campaign, or a configuration of that name, put in
  std::string revert;
  std::string into;   // the source tree; empty: that of this program, else the folder where it runs
  std::string key;    // file of the public key that must have signed every line; empty: none
  std::string name;   // of the new configuration; empty: made of its values
  std::string limit;  // "20m" for measuring all shapes; empty: none
  bool commit = false, dry_run = false, no_build = false;
};
struct Promoted {
  record::Promotion promotion;
  std::string said;    // one sentence
  std::string next;    // the command to run now; empty after a dry run
  bool built = false;  // the tree's build has it, and was asked
};
// All edits or none.
Result<Promoted> promote(const Context& context, const PromoteRequest& request);

}  // namespace ridge::service
