#include "token_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "http/access.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShortestToken = 16;

Result<std::string> new_token(const fs::path& file) {
  const std::string token = http::random_token();
  RIDGE_CHECK_OK(write_file_durably(file, token + "\n"));
  std::error_code failure;
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write, failure);
  if (failure) return make_error(ErrorCode::kIo, "{}: {}", file.string(), failure.message());
  return token;
}

}  // namespace

Result<std::string> token_in(const fs::path& file) {
  struct stat found = {};
  if (::stat(file.c_str(), &found) != 0) return new_token(file);
  RIDGE_TRY(text, read_file(file));
  std::string token(trimmed(text));
  const bool is_word = std::ranges::all_of(token, [](unsigned char c) { return c > 32 && c < 127; });
  if (token.size() < kShortestToken || !is_word)
    return with_hint(invalid("{} holds no token", file.string()),
                     fmt::format("one line of at least {} letters and digits: openssl rand -hex 32 > {}; without the "
                                 "file a new one is made",
                                 kShortestToken, file.string()));
  if ((found.st_mode & 077) != 0)
    return with_hint(invalid("others may read the token in {}", file.string()),
                     fmt::format("chmod 600 {}", file.string()));
  return token;
}

}  // namespace ridge::cli
