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

}  // namespace ridge::record
