// What `ridge handoff` and `ridge handoff init` print alike.
#pragma once

#include <string>

#include "command.h"
#include "service/handoff.h"

namespace ridge::cli {

int exit_code_of(const service::HandoffReport& report);
// `where`: the folder, as the user named it.
void say_handoff(const service::HandoffReport& result, const project::Project& project, const std::string& where,
                 bool compile_only);

void define_handoff_init(Command& handoff);

}  // namespace ridge::cli
