// The folders of the project's sources and of the build. Functions of one small object file, so that no other depends
// on where they are: a compiler cache then serves a clone in any folder.
#pragma once
#include <filesystem>

namespace ridge {

std::filesystem::path source_dir();
std::filesystem::path binary_dir();

}  // namespace ridge
