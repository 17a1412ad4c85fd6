// Whether a built object may be loaded: read from its ELF headers, before anything of it is mapped.
//
// Loading an object runs code of it (constructors, resolvers of indirect functions) while the sandbox must still let
// the loader read files and map code. So an object may be loaded only if loading runs nothing of its own: the first
// instruction of a candidate is the first of ridge_kernel, behind the last system call filter.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace ridge::evaluate {

// Why it may not be loaded, with the symbol and what to do instead; nothing when it may.
std::optional<std::string> refuse_artifact(const std::filesystem::path& file);

}  // namespace ridge::evaluate
