// ridge spec export: the spec database in the layout of another hardware store.
#pragma once

#include "command.h"

namespace ridge::cli {

void define_spec_export(Command& spec);

}  // namespace ridge::cli
