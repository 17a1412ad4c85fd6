#include "execute/neighbours.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace ridge::execute {
namespace {

constexpr double kWorthNaming = 0.01;  // of all processors
constexpr std::size_t kMostNamed = 3;

struct Process {
  std::string name;
  std::int64_t parent = 0;
  double ticks = 0;        // its own
  double child_ticks = 0;  // of children that have ended and were waited for
};

// /proc/PID/stat: "id (name) state parent ... utime stime cutime cstime"; the name may hold anything, ')' too.
bool read_process(const std::filesystem::path& folder, Process& process) {
  std::ifstream file(folder / "stat");
  std::string text;
  std::getline(file, text);
  const std::size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return false;
  process.name = text.substr(open + 1, close - open - 1);
  std::istringstream rest(text.substr(close + 1));
  std::string state, skipped;
  rest >> state >> process.parent;
  for (int field = 5; field < 14; ++field) rest >> skipped;
  double user = 0, system = 0, child_user = 0, child_system = 0;
  rest >> user >> system >> child_user >> child_system;
  process.ticks = user + system;
  process.child_ticks = child_user + child_system;
  return !rest.fail();
}

std::map<std::int64_t, Process> read_processes() {
  std::map<std::int64_t, Process> processes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    std::int64_t id = 0;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), id);
    Process process;
    if (problem != std::errc() || end != name.data() + name.size()) continue;
    if (read_process(entry.path(), process)) processes[id] = std::move(process);
  }
  return processes;
}

bool below(const std::map<std::int64_t, Process>& processes, std::int64_t id, std::int64_t ancestor) {
  for (std::size_t depth = 0; depth <= processes.size(); ++depth) {
    if (id == ancestor) return true;
    const auto found = processes.find(id);
    if (found == processes.end() || found->second.parent == id) return false;
    id = found->second.parent;
  }
  return false;
}

}  // namespace

NeighbourWatch::Account NeighbourWatch::read() {
  Account account;
  std::ifstream file("/proc/stat");
  std::string label;
  double ticks[8] = {};  // user nice system idle iowait irq softirq steal
  file >> label;
  for (double& value : ticks) file >> value;
  account.busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
  account.steal = ticks[7];
  account.total = account.busy + account.steal + ticks[3] + ticks[4];
  const std::map<std::int64_t, Process> processes = read_processes();
  for (const auto& [id, process] : processes) {
    if (below(processes, id, ::getpid())) {
      account.own += process.ticks + process.child_ticks;
    } else {
      account.processes[id] = {process.name, process.ticks};
    }
  }
  return account;
}

NeighbourWatch::NeighbourWatch() : before_(read()) {}

Neighbourhood NeighbourWatch::since() const {
  const Account now = read();
  Neighbourhood around;
  const double total = now.total - before_.total;
  if (total <= 0) return around;
  const auto share = [&](double used) { return std::clamp(used / total, 0.0, 1.0); };
  around.foreign_load = share((now.busy - before_.busy) - (now.own - before_.own));
  around.steal = share(now.steal - before_.steal);
  std::map<std::string, double> used;
  for (const auto& [id, process] : now.processes) {
    const auto earlier = before_.processes.find(id);
    used[process.first] += process.second - (earlier == before_.processes.end() ? 0 : earlier->second.second);
  }
  for (const auto& [name, ticks] : used) {
    if (share(ticks) >= kWorthNaming) around.neighbours.push_back({name, share(ticks)});
  }
  std::stable_sort(around.neighbours.begin(), around.neighbours.end(),
                   [](const Neighbour& a, const Neighbour& b) { return a.share > b.share; });
  return around;
}

std::string Neighbourhood::text() const {
  std::string names;
  for (std::size_t i = 0; i < std::min(neighbours.size(), kMostNamed); ++i) {
    names += fmt::format("{}{} {:.0f} %", i == 0 ? ": " : ", ", neighbours[i].name, 100 * neighbours[i].share);
  }
  std::string text = fmt::format("others use {:.0f} % of the processors{}", 100 * foreign_load, names);
  if (steal >= kWorthNaming) text += fmt::format("; the hypervisor takes {:.0f} %", 100 * steal);
  return text;
}

Neighbourhood look_around(double seconds) {
  const NeighbourWatch watch;
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return watch.since();
}

}  // namespace ridge::execute
