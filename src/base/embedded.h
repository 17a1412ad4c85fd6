// A file whose text travels inside the program; cmake/ridge_cuda.cmake writes lists of them.
#pragma once

#include <string_view>

namespace ridge {

struct EmbeddedFile {
  std::string_view path;  // relative to the folder they were taken from, '/' between its parts
  std::string_view text;
};

}  // namespace ridge
