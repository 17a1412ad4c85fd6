// Checks the descriptions of the library's kernels while the library is built, and writes the list of their builds.
#include <cstdio>

#include <fmt/format.h>

#include "base/files.h"
#include "ops/shipped_builds.h"
#include "record/json.h"

int main(int count, char** words) {
  if (count != 2) {
    fmt::print(stderr, "usage: ridge-kernel-builds FILE\n");
    return 2;
  }
  const auto builds = ridge::ops::shipped_builds();
  if (!builds) {
    fmt::print(stderr, "{}\n", builds.error().text());
    return 1;
  }
  const ridge::Status written = ridge::write_file_durably(words[1], ridge::record::to_pretty(*builds));
  if (!written) fmt::print(stderr, "{}\n", written.error().text());
  return written ? 0 : 1;
}
