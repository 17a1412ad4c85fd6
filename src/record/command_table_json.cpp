#include "record/command_table.h"

#include "record/archive.h"

namespace ridge::record {

template struct Codec<CommandAnswer>;
template struct Codec<Configuration>;
template struct Codec<std::vector<CommandEntry>>;

}  // namespace ridge::record
