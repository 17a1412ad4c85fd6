// Reads source texts for what a measurement alone may miss: code that remembers a tensor by its identity, and code that
// bakes in how loads are spread. A finding blocks; that something was not found proves nothing and is never claimed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "record/candidate.h"

namespace ridge::campaign {

// Without comments (// and /* */, or # for a path that ends with .py) and with blanks squeezed; texts stay as they are.
// Two sources that differ in layout and comments only are equal after this.
std::string without_comments(std::string_view source, std::string_view path);

// SHA-256 of everything that changes the meaning of a candidate: sources without comments, defines, flags.
std::string meaning_of(const record::Candidate& candidate);

struct ScanFinding {
  std::string path, line, what;
  [[nodiscard]] std::string text() const;
};

// Lines that `candidate` has and `before` has not, comments left out.
std::vector<std::pair<std::string, std::string>> added_lines(const record::Candidate& before,
                                                             const record::Candidate& candidate);

// Memory of a tensor's identity: id(), data_ptr(), weakref, lru_cache, _version; in Python hash(), __hash__,
// OrderedDict and functools.cache as well; in C++ a static map or set, or a static pointer to constant data.
std::vector<ScanFinding> find_identity_memory(const record::Candidate& before, const record::Candidate& candidate);
// Group sizes baked in at compile time, divisibility asserted, groups assumed not to be empty.
std::vector<ScanFinding> find_baked_in_load(const record::Candidate& before, const record::Candidate& candidate);
// Words in prose that announce a cache; a plan that has one must declare its key.
std::vector<std::string> cache_words(std::string_view prose);

// Names of functions with C linkage that the sources define or declare: the interface of a candidate.
std::vector<std::string> exported_names(const record::Candidate& candidate);

}  // namespace ridge::campaign
