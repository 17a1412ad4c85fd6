#include "places.h"

namespace ridge {

std::filesystem::path source_dir() { return RIDGE_SOURCE_DIR; }
std::filesystem::path binary_dir() { return RIDGE_BINARY_DIR; }

}  // namespace ridge
