#include "toolchain/sealed_object.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace ridge::toolchain {

Result<std::shared_ptr<const SealedObject>> SealedObject::create(std::string_view bytes) {
  const int fd = ::memfd_create("ridge-object", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return make_error(ErrorCode::kIo, "cannot make a file in memory: {}", std::strerror(errno));
  std::shared_ptr<const SealedObject> object(new SealedObject(fd));
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return make_error(ErrorCode::kIo, "cannot write a file in memory: {}", std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return make_error(ErrorCode::kIo, "cannot seal a file in memory: {}", std::strerror(errno));
  }
  return object;
}

SealedObject::~SealedObject() { ::close(fd_); }

std::filesystem::path SealedObject::path() const { return fmt::format("/proc/self/fd/{}", fd_); }

}  // namespace ridge::toolchain
