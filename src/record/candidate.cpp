#include "record/candidate.h"

#include "base/hash.h"
#include "record/json.h"

namespace ridge::record {

std::string Candidate::id() const {
  Candidate content = *this;
  content.name.clear();
  content.parent.clear();
  return sha256(to_line(content));
}

namespace {

constexpr std::string_view kInTree = "#include \"../../device/cuda/kernel/", kByName = "#include \"ridge/kernel/";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace

// A kernel may lie in a folder below its operator's.
std::string as_candidate_text(std::string library_text) {
  library_text = replaced(std::move(library_text), "#include \"../../../device/cuda/kernel/", kByName);
  return replaced(std::move(library_text), kInTree, kByName);
}

std::string as_library_text(std::string candidate_text) {
  return replaced(std::move(candidate_text), kByName, kInTree);
}

}  // namespace ridge::record
