#include "toolchain/confined.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/mounts.h"

namespace ridge::toolchain {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlace = "/build";

Status give(const fs::path& path, uid_t user) {
  if (::lchown(path.c_str(), user, user) == 0) return ok_status();
  return make_error(ErrorCode::kIo, "cannot give {} to user {}: {}", path.string(), user, std::strerror(errno));
}

}  // namespace

// The user name space of a container may have no nobody.
ConfinedFolder::ConfinedFolder(std::string program, fs::path directory, bool confined)
    : program_(std::move(program)),
      directory_(std::move(directory)),
      confined_(confined),
      as_nobody_(confined && ::geteuid() == 0 && why_not_confined().empty() && give(directory_, mounts::kNobody).ok()) {
}

ProcessSpec ConfinedFolder::process() const {
  ProcessSpec spec;
  spec.directory = directory_;
  spec.environment = {{"LC_ALL", "C"},
                      {"TMPDIR", confined_ && why_not_confined().empty() ? kPlace : directory_.string()}};
  spec.clear_environment = true;
  for (const char* name : {"PATH", "LD_LIBRARY_PATH"}) {
    if (const char* value = std::getenv(name)) spec.environment[name] = value;
  }
  if (!confined_) return spec;
  Confinement nothing_else;
  nothing_else.readable = {
      "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/etc/ld.so.cache"};
  std::error_code ignored;
  nothing_else.readable.push_back(fs::canonical(program_, ignored).parent_path().parent_path());
  nothing_else.readable.push_back(fs::path(program_).parent_path());
  nothing_else.writable = {directory_};
  nothing_else.place = kPlace;
  nothing_else.other_user = as_nobody_;
  spec.confinement = std::move(nothing_else);
  return spec;
}

Status ConfinedFolder::take_back(std::initializer_list<const char*> files) const {
  if (!as_nobody_) return ok_status();
  RIDGE_CHECK_OK(give(directory_, 0));
  for (const char* file : files) RIDGE_CHECK_OK(give(directory_ / file, 0));
  return ok_status();
}

}  // namespace ridge::toolchain
