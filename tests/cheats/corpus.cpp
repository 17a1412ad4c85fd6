#include "cheats/corpus.h"

#include <fmt/format.h>
#include <sys/sem.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "cheats/head_line.h"
#include "evaluate/run.h"
#include "measure/machine.h"
#include "places.h"

namespace ridge::cheats {
namespace {

namespace fs = std::filesystem;
using record::Defence;

constexpr key_t kSemaphore = 0x52494447;  // of shares_a_semaphore.cpp

const fs::path kFolder = source_dir() / "tests/cheats/cpu";

void apply(const fs::path& file, const std::string& key, const std::string& value, Item& item) {
  if (key == "gate") {
    item.gate = gate_of(file, value);
  } else if (key == "outcome") {
    item.outcome = outcome_of(file, value);
  } else if (key == "shows") {
    for (const std::string& gate : words_of(value, '|')) item.shows.push_back(gate_of(file, gate));
  } else if (key == "without") {
    for (const std::string& gate : words_of(value, ',')) {
      item.defences = item.defences.without(gate_of(file, gate));
    }
  } else if (key == "case") {
    set_params(value, item.problem);
  } else if (key == "flags") {
    item.candidate.flags = words_of(value, ',');
  } else if (key == "needs") {
    item.needs = value;
  } else if (key == "draw") {
    item.defences.full_draw_one_in = std::strtoull(value.c_str(), nullptr, 10);
  } else if (key == "part") {
    for (const auto& [part, name] : evaluate::kParts) {
      if (name == value) item.part = part;
    }
    if (!item.part) refuse(file, fmt::format("\"{}\" is no part of a defence", value));
  } else if (key == "proves") {
    item.proves = true;
  } else {
    refuse(file, fmt::format("\"{}\" is no key", key));
  }
}

Item read(const fs::path& file) {
  Item item;
  item.name = file.stem().string();
  item.problem = *record::parse_case("gemm m=33 n=40 k=21");
  item.candidate.op = "gemm";
  item.candidate.name = item.name;
  const HeadLine head = read_head_line(file);
  item.honest = head.honest;
  item.candidate.sources = {{"kernel.cpp", head.text}, {"gemm.h", text_of(kFolder / "gemm.h")}};
  for (const auto& [key, value] : head.words) apply(file, key, value, item);
  if (!item.honest && (item.gate == Defence::kNone || item.outcome == record::Outcome::kPass)) {
    refuse(file, "a cheat has a gate and an outcome");
  }
  if (item.shows.empty()) item.shows = {item.gate};
  constexpr std::string_view kSays = "\n// says: ";
  const std::size_t second = head.text.find('\n');
  if (head.text.compare(second, kSays.size(), kSays) == 0) {
    const std::size_t from = second + kSays.size();
    item.says = head.text.substr(from, head.text.find('\n', from) - from);
  }
  return item;
}

std::vector<Item> read_all() {
  std::vector<Item> items;
  for (const fs::path& file : candidates_in({kFolder, kFolder / "honest", kFolder / "pairs"}, ".cpp")) {
    items.push_back(read(file));
  }
  return items;
}

}  // namespace

const std::vector<Item>& corpus() {
  static const std::vector<Item> items = read_all();
  return items;
}

record::CheckRow check(const Item& item, const evaluate::Defences& defences) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kCheck;
  request.candidates = {item.candidate};
  request.cases = {item.problem};
  // Kept between runs: a built artefact is found again by its content.
  request.cache_directory = (binary_dir() / "cheats-cache").string();
  // Short where a call that never ends is meant; beside other work, taking 400 MiB lasts longer than that.
  request.protocol.call_timeout = item.gate == Defence::kHang ? 0.5 : 5;
  request.protocol.memory_limit_mib = 256;
  const record::WorkerResponse response = evaluate::run(request, {binary_dir() / "bin" / "ridge-host", {}, defences});
  if (response.checks.size() == 1 && response.checks[0].rows.size() == 1) return response.checks[0].rows[0];
  record::CheckRow row;
  row.outcome = record::Outcome::kHarnessFault;
  row.detail = response.error;
  return row;
}

namespace {

// What candidates are not shut in by on this machine, as a check says it: "without pid_namespace, ...".
const std::string& lacking() {
  static const std::string lacks = [] {
    const auto honest = std::ranges::find_if(corpus(), &Item::honest);
    auto lanes = check(*honest).lanes;
    return lanes["sandbox"];
  }();
  return lacks;
}

}  // namespace

std::string missing(const Item& item) {
  if (item.needs == "root" && ::geteuid() != 0) return "only a measurement started by root has a root to hide";
  // Left behind on purpose: a key that exists already is as good.
  if (item.needs == "semaphore" && ::semget(kSemaphore, 1, IPC_CREAT | 0666) < 0) return "no System V semaphores here";
  const bool shuts_in = item.gate == Defence::kOtherUser || item.gate == Defence::kUserNamespace ||
                        item.gate == Defence::kPidNamespace || item.gate == Defence::kMountNamespace ||
                        item.gate == Defence::kNetNamespace || item.gate == Defence::kIpcNamespace;
  if (shuts_in && lacking().find(record::name_of(item.gate)) != std::string::npos) {
    return fmt::format("this machine shuts candidates in {}", lacking());
  }
  if (item.needs == "processors" && measure::usable_cpus().size() < 2) return "one processor has no other to move to";
  return {};
}

std::vector<Defence> defences() {
  std::vector<Defence> all;
  for (const auto& [gate, name] : record::EnumNames<Defence>::kNames) {
    const bool fact = gate == Defence::kNone || gate == Defence::kStatus || gate == Defence::kCrash;
    // Only a device has these; tests/cheats/cuda tries them.
    const bool device = gate == Defence::kDeviceCalls || gate == Defence::kFloor;
    if (!fact && !device) all.push_back(gate);
  }
  return all;
}

}  // namespace ridge::cheats
