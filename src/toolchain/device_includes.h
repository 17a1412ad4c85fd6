// Which files a device source can reach by #include, for the key of its artefact. Internal to this folder.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "record/candidate.h"

namespace ridge::toolchain {

// One line per toolkit header that some file of the code includes, directly or through others: its name and digest.
// Conditions are not evaluated, so the answer may hold more than one compilation reads, never less, unless the name
// comes from a macro. What is found neither among the files nor in the folders is left to the compiler.
std::string toolkit_headers(std::span<const record::SourceFile> files, std::span<const std::string> folders);

// The first #include or __has_include that names a file outside the candidate ("/etc/...", "../..."), comes from a
// macro, or is no plain directive alone in its line; else empty. A __has_include whose name is pasted together is not
// seen: it tells whether a file exists, and reads none.
std::string include_outside(const record::SourceFile& file);

}  // namespace ridge::toolchain
