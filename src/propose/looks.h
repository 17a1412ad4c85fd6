// Which configurations a round looks at: those of which the search engine (search/tuner.h) expects most, with what
// other campaigns looked at and the cost model as what is believed before data, and every look of the campaign as data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "propose/machine.h"
#include "propose/past.h"
#include "propose/space.h"

namespace ridge::propose {

struct Looks {
  std::vector<Config> configs;  // the most promising first
  // What the engine expects of the first against the incumbent, and how far off that may be, both as logarithms of a
  // ratio; nothing where it has too few looks to say.
  struct Outlook {
    double gain = 0, deviation = 0;
    std::size_t from = 0;  // looks
  };
  std::optional<Outlook> outlook;
};

// At most `size` out of `among`, which are valid and canonical, and of which nothing was settled; at least one, where
// there is one: where all were looked at, the fastest again. The same for the same arguments.
Looks choose_looks(const Space& space, const Machine& machine, const Past& past,
                   const std::vector<record::EarlierLooks>& earlier, const std::vector<Config>& among, std::size_t size,
                   std::uint64_t seed);

}  // namespace ridge::propose
