// The checks of a handoff, which `ridge handoff` and `ridge handoff init` run and print alike.
#pragma once

#include <string>
#include <vector>

#include "command.h"
#include "project/project.h"
#include "record/listing.h"

namespace ridge::cli {

struct HandoffResult {
  std::vector<record::HandoffRow> rows;
  bool ready = false;
  bool unavailable = false;  // what failed is a program that this machine lacks
  [[nodiscard]] int exit_code() const;
};
Result<HandoffResult> try_project(const project::Project& project, bool compile_only);
// `where`: the folder, as the user named it.
void say_handoff(const HandoffResult& result, const project::Project& project, const std::string& where,
                 bool compile_only);

void define_handoff_init(Command& handoff);

}  // namespace ridge::cli
