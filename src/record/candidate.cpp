#include "record/candidate.h"

#include <algorithm>

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

constexpr std::string_view kByName = "#include \"ridge/kernel/";

// How a kernel so many folders below src/ names a file of the kernel layer.
std::string in_tree(std::ptrdiff_t folders) {
  std::string text = "#include \"";
  for (; folders > 0; --folders) text += "../";
  return text + "device/cuda/kernel/";
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace

// A kernel lies in its operator's folder, or in one below it.
std::string as_candidate_text(std::string library_text) {
  for (const std::ptrdiff_t folders : {2, 3})
    library_text = replaced(std::move(library_text), in_tree(folders), kByName);
  return library_text;
}

std::string as_library_text(std::string candidate_text, std::string_view path) {
  return replaced(std::move(candidate_text), kByName, in_tree(std::ranges::count(path, '/')));
}

}  // namespace ridge::record
