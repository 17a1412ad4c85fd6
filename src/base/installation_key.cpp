#include "base/installation_key.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "base/files.h"

namespace ridge {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBytes = 32;

Error refused(const fs::path& path, const std::string& why) {
  return with_hint(make_error(ErrorCode::kInvalidArgument, "the key {} is not used: {}", path.string(), why),
                   "remove it; a new one is made, and what the cache holds is built again");
}

// A folder in which others can put files of their own is no place for a key.
Status make_private_folder(const fs::path& directory) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0) {
    if (directory.has_parent_path()) RIDGE_CHECK_OK(make_directories(directory.parent_path()));
    if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
      return make_error(ErrorCode::kIo, "cannot create directory {}: {}", directory.string(), std::strerror(errno));
    }
    if (::stat(directory.c_str(), &status) != 0) {
      return make_error(ErrorCode::kIo, "cannot read directory {}: {}", directory.string(), std::strerror(errno));
    }
  }
  if (status.st_uid != ::geteuid() || (status.st_mode & 022) != 0) {
    return with_hint(make_error(ErrorCode::kInvalidArgument,
                                "the folder {} of the key belongs to user {} with mode {:o}; it must be user {}'s and "
                                "not writable by others",
                                directory.string(), status.st_uid, status.st_mode & 07777, ::geteuid()),
                     "put it right, or name another one in RIDGE_STATE_DIR");
  }
  return ok_status();
}

// The key, or an empty text when there is no file.
Result<std::string> read_key(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return std::string();
  if (fd < 0) return refused(path, std::strerror(errno));
  struct stat status {};
  std::array<char, kBytes> bytes{};
  const bool known = ::fstat(fd, &status) == 0;
  const ssize_t count = ::read(fd, bytes.data(), bytes.size());
  ::close(fd);
  if (!known || !S_ISREG(status.st_mode)) return refused(path, "it is no file");
  if (status.st_uid != ::geteuid()) return refused(path, fmt::format("it belongs to user {}", status.st_uid));
  if ((status.st_mode & 077) != 0) return refused(path, fmt::format("its mode is {:o}", status.st_mode & 07777));
  if (status.st_size != static_cast<off_t>(kBytes) || count != static_cast<ssize_t>(kBytes)) {
    return refused(path, fmt::format("it has {} bytes, not {}", status.st_size, kBytes));
  }
  return std::string(bytes.data(), bytes.size());
}

// Complete or absent: written beside its place and linked into it, which fails when another process was faster.
Status make_key(const fs::path& path) {
  std::array<char, kBytes> bytes{};
  check(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "getrandom failed");
  std::string temporary = path.string() + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);  // mode 0600
  if (fd < 0) return make_error(ErrorCode::kIo, "cannot create {}: {}", temporary, std::strerror(errno));
  const bool written =
      ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) && ::fsync(fd) == 0;
  const bool placed = written && (::link(temporary.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int failure = errno;
  ::close(fd);
  ::unlink(temporary.c_str());
  if (!placed) return make_error(ErrorCode::kIo, "cannot write {}: {}", path.string(), std::strerror(failure));
  return sync_directory(path.parent_path());
}

}  // namespace

Result<std::string> installation_key(const fs::path& directory) {
  const fs::path path = directory / "key";
  RIDGE_CHECK_OK(make_private_folder(directory));
  RIDGE_TRY(key, read_key(path));
  if (!key.empty()) return key;
  RIDGE_CHECK_OK(make_key(path));
  RIDGE_TRY(made, read_key(path));
  if (made.empty()) return refused(path, "it was removed while it was made");
  return made;
}

std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> tag{};
  unsigned size = 0;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  check(
      ::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes, text.size(), tag.data(), &size) != nullptr,
      "HMAC-SHA256 failed");
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", tag[i]);
  return hex;
}

bool same_tag(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace ridge
