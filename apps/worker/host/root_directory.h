// A root directory with nothing in it but the system's libraries and the artefact.
#pragma once

namespace ridge::host {

inline constexpr const char* kArtifactPath = "/kernel.so";

// In a mount name space of our own: a small file system in memory with the library directories bound read-only and a
// copy of what `artifact_fd` holds, made the root; everything else is unmounted. False when the machine refuses any of
// it; the old root may then still be there.
bool enter_root_directory(int artifact_fd);

}  // namespace ridge::host
