#include "say.h"

#include "base/visible.h"

namespace ridge::cli {

void write_text(std::FILE* stream, std::string_view text) {
  const std::string safe = visible_with_colors(text);
  std::fwrite(safe.data(), 1, safe.size(), stream);
}

}  // namespace ridge::cli
