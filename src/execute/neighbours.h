// Who else uses the processors of this machine: what /proc accounts between two looks, this process and its children
// left out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ridge::execute {

struct Neighbour {
  std::string name;  // of the program; processes of one name are one neighbour
  double share = 0;  // of the time of all processors
};

struct Neighbourhood {
  double foreign_load = 0;            // of the time of all processors, used by others
  double steal = 0;                   // taken by the hypervisor
  std::vector<Neighbour> neighbours;  // largest share first; of those that can be seen from here

  // "others use 44 % of the processors: cc1plus 31 %, python3 9 %"; names the three largest.
  [[nodiscard]] std::string text() const;
};

// Looks when it is made, and again when it is asked.
class NeighbourWatch {
 public:
  NeighbourWatch();
  [[nodiscard]] Neighbourhood since() const;

 private:
  struct Account {
    double busy = 0, steal = 0, total = 0;                             // ticks of all processors
    std::map<std::int64_t, std::pair<std::string, double>> processes;  // by id: name, ticks
    double own = 0;                                                    // of this process and all below it
  };
  static Account read();
  Account before_;
};

// One look that lasts `seconds`.
Neighbourhood look_around(double seconds);

}  // namespace ridge::execute
