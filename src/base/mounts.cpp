#include "base/mounts.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

namespace ridge::mounts {
namespace {

void write_text(const char* path, const char* text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  (void)!::write(fd, text, std::strlen(text));
  ::close(fd);
}

}  // namespace

void map_user(const char* uid_map, const char* gid_map) {
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/uid_map", uid_map);
  write_text("/proc/self/gid_map", gid_map);
}

bool keep_to_ourselves() { return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0; }

bool mount_empty(const char* directory) {
  return ::mount("ridge", directory, "tmpfs", MS_NOSUID | MS_NODEV, "size=256m,mode=0755") == 0;
}

bool bind(const char* from, const char* to) { return ::mount(from, to, nullptr, MS_BIND | MS_REC, nullptr) == 0; }

bool bind_read_only(const char* from, const char* to) { return bind(from, to) && make_read_only(to); }

bool make_read_only(const char* mounted) {
  struct statfs status {};
  if (::statfs(mounted, &status) != 0) return false;
  // Flags of a mount that a user name space inherited cannot be taken away.
  const unsigned long inherited = static_cast<unsigned long>(status.f_flags) & (MS_NOSUID | MS_NODEV | MS_NOEXEC);
  return ::mount(nullptr, mounted, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | inherited,
                 nullptr) == 0;
}

bool become_root_directory(const char* stage) {
  // The new root on top of the old one, which is then taken away from below.
  if (::chdir(stage) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0) return false;
  return ::umount2(".", MNT_DETACH) == 0 && ::chdir("/") == 0;
}

bool drop_capabilities(std::uint64_t kept) {
  for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0 && capability < 64; ++capability) {
    if (((kept >> capability) & 1u) == 0) ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(SYS_capget, &header, data) != 0) return false;
  for (unsigned word = 0; word < 2; ++word) {
    const auto mask = static_cast<std::uint32_t>(kept >> (32 * word));
    data[word].effective &= mask;
    data[word].permitted &= mask;
    data[word].inheritable = 0;
  }
  return ::syscall(SYS_capset, &header, data) == 0;
}

bool become_nobody() {
  if (::geteuid() != 0) return true;  // there is nothing to give up
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0;
}

}  // namespace ridge::mounts
