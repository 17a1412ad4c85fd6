// A compiler in name spaces of its own: it sees itself, the folder it works in, and nothing else of this machine.
// Internal to this folder.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>

#include "base/confinement.h"
#include "base/process.h"
#include "ridge/result.h"

namespace ridge::toolchain {

// The folder that a compiler works in, lent to it. Inside of name spaces it is always seen at one place, so that an
// object that holds its name comes out the same wherever it is built. Where the machine has none the compiler sees this
// machine's files.
class ConfinedFolder {
 public:
  ConfinedFolder(std::string program, std::filesystem::path directory, bool confined);

  // The program is started in the folder, with nothing of the user's environment but what a compiler may need to start:
  // CPATH and its like change what is read.
  [[nodiscard]] ProcessSpec process() const;
  // In name spaces the tools of root run as nobody, whose the folder then is: makes it and these files of it root's
  // again.
  [[nodiscard]] Status take_back(std::initializer_list<const char*> files) const;

 private:
  std::string program_;
  std::filesystem::path directory_;
  bool confined_, as_nobody_;
};

}  // namespace ridge::toolchain
