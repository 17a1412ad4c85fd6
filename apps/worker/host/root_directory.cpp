#include "root_directory.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "base/mounts.h"

namespace ridge::host {
namespace {

// Any directory will do: only this process sees what is mounted on it.
constexpr const char* kStage = "/tmp";
// Where the loader looks for what an artefact may need (libgomp, libm, the run time of the sanitizers).
constexpr const char* kLibraries[] = {"/lib", "/lib64", "/usr/lib", "/usr/lib64"};

// A library directory, or the same symbolic link where it is one.
bool add_libraries(const char* path) {
  char target[128], link[256];
  struct stat status {};
  if (::lstat(path, &status) != 0) return true;  // this machine has none of that name
  std::snprintf(target, sizeof target, "%s%s", kStage, path);
  if (S_ISLNK(status.st_mode)) {
    const ssize_t size = ::readlink(path, link, sizeof link - 1);
    if (size < 0) return false;
    link[size] = '\0';
    return ::symlink(link, target) == 0;
  }
  return ::mkdir(target, 0755) == 0 && mounts::bind_read_only(path, target);
}

// The descriptor belongs to the old name space, from where nothing can be bound; the artefact is small.
bool copy_artifact(int artifact_fd) {
  char path[64];
  std::snprintf(path, sizeof path, "%s%s", kStage, kArtifactPath);
  struct stat status {};
  if (::fstat(artifact_fd, &status) != 0) return false;
  const int out = ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
  if (out < 0) return false;
  off_t at = 0;
  while (at < status.st_size) {
    if (::sendfile(out, artifact_fd, &at, static_cast<std::size_t>(status.st_size - at)) <= 0) break;
  }
  return ::close(out) == 0 && at == status.st_size;
}

}  // namespace

bool enter_root_directory(int artifact_fd) {
  if (!mounts::keep_to_ourselves() || !mounts::mount_empty(kStage)) return false;
  char usr[32];
  std::snprintf(usr, sizeof usr, "%s/usr", kStage);
  if (::mkdir(usr, 0755) != 0 || !copy_artifact(artifact_fd)) return false;
  for (const char* path : kLibraries) {
    if (!add_libraries(path)) return false;
  }
  return mounts::make_read_only(kStage) && mounts::become_root_directory(kStage);
}

}  // namespace ridge::host
