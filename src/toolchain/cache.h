// The content-addressed store of artefacts: <directory>/artifacts/<first two digits>/<key>/{kernel.so, evidence.json},
// or kernel.cubin for device code.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "record/measurement.h"
#include "ridge/result.h"

namespace ridge::toolchain {

inline constexpr const char* kArtifactName = "kernel.so";
inline constexpr const char* kCubinName = "kernel.cubin";

class ArtifactCache {
 public:
  explicit ArtifactCache(std::filesystem::path directory, std::string artifact_name = kArtifactName)
      : directory_(std::move(directory)), name_(std::move(artifact_name)) {}

  struct Entry {
    std::filesystem::path artifact;
    record::BuildEvidence evidence;
  };
  // The entry of a key, or nothing. An entry whose artefact does not have the recorded digest is removed.
  [[nodiscard]] std::optional<Entry> find(const std::string& key) const;

  // A fresh private directory on the same file system, to build in.
  [[nodiscard]] Result<std::filesystem::path> scratch() const;

  // Moves a finished directory (the artefact inside) into place with one rename. When another process was faster its
  // entry stands and ours is dropped; both are the same by construction.
  [[nodiscard]] Result<Entry> commit(const std::string& key, const std::filesystem::path& scratch,
                                     const record::BuildEvidence& evidence) const;

 private:
  [[nodiscard]] std::filesystem::path folder(const std::string& key) const;
  std::filesystem::path directory_;
  std::string name_;
};

}  // namespace ridge::toolchain
