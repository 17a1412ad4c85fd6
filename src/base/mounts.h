// Steps of entering name spaces, as system calls only: they are made between clone and exec, and by ridge-host, which
// links no library. Each says whether the machine allowed it; errno says why not.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace ridge::mounts {

// The user and group "nobody".
inline constexpr uid_t kNobody = 65534;

// Maps one user and one group of a new user name space: lines like "1000 1000 1".
void map_user(const char* uid_map, const char* gid_map);

// What is mounted or unmounted from here on stays in this mount name space.
bool keep_to_ourselves();
// An empty file system in memory on a directory that exists.
bool mount_empty(const char* directory);
// `from` on top of `to`, which exists; the second without the right to write.
bool bind(const char* from, const char* to);
bool bind_read_only(const char* from, const char* to);
bool make_read_only(const char* mounted);
// What is mounted at `stage` becomes the root directory, and the old root is unmounted.
bool become_root_directory(const char* stage);

// No capability but those in `kept` (a mask by number), and no way to gain one. False: there still are some.
bool drop_capabilities(std::uint64_t kept);
// From root to the user nobody without groups; true for other users, who have nothing to give up.
bool become_nobody();

}  // namespace ridge::mounts
