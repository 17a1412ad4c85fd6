#include "cheats/corpus.h"

#include <fmt/format.h>
#include <sys/sem.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "base/files.h"
#include "evaluate/run.h"

namespace ridge::cheats {
namespace {

namespace fs = std::filesystem;
using record::Gate;

constexpr key_t kSemaphore = 0x52494447;  // of shares_a_semaphore.cpp

const fs::path kFolder = fs::path(RIDGE_SOURCE_DIR) / "tests/cheats/cpu";

[[noreturn]] void refuse(const fs::path& file, const std::string& why) {
  fmt::print(stderr, "{}: {}\n", file.string(), why);
  std::abort();
}

std::string text_of(const fs::path& file) {
  Result<std::string> text = read_file(file);
  if (!text) refuse(file, text.error().text());
  return std::move(*text);
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

template <class Enum>
Enum value_of(const fs::path& file, const std::string& name) {
  for (const auto& [value, text] : record::EnumNames<Enum>::kNames) {
    if (text == name) return value;
  }
  refuse(file, fmt::format("\"{}\" is no value of this key", name));
}

void apply(const fs::path& file, const std::string& key, const std::string& value, Item& item) {
  if (key == "gate") {
    item.gate = value_of<Gate>(file, value);
  } else if (key == "outcome") {
    item.outcome = value_of<record::Outcome>(file, value);
  } else if (key == "shows") {
    for (const std::string& gate : split(value, '|')) item.shows.push_back(value_of<Gate>(file, gate));
  } else if (key == "without") {
    for (const std::string& gate : split(value, ',')) {
      item.defences = item.defences.without(value_of<Gate>(file, gate));
    }
  } else if (key == "case") {
    for (const std::string& param : split(value, ',')) {
      item.problem.set(param.substr(0, param.find('=')), param.substr(param.find('=') + 1));
    }
  } else if (key == "flags") {
    item.candidate.flags = split(value, ',');
  } else if (key == "needs") {
    item.needs = value;
  } else if (key == "draw") {
    item.defences.full_draw_one_in = std::strtoull(value.c_str(), nullptr, 10);
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
  const std::string text = text_of(file);
  item.candidate.sources = {{"kernel.cpp", text}, {"gemm.h", text_of(kFolder / "gemm.h")}};
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  item.honest = line.starts_with("// ridge-honest:");
  if (!item.honest && !line.starts_with("// ridge-cheat:"))
    refuse(file, "its first line says neither cheat nor honest");
  for (const std::string& word : split(line.substr(line.find(':') + 1), ' ')) {
    const std::size_t equals = word.find('=');
    if (word == "proves") {
      item.proves = true;
    } else {
      apply(file, word.substr(0, equals), equals == std::string::npos ? "" : word.substr(equals + 1), item);
    }
  }
  if (!item.honest && (item.gate == Gate::kNone || item.outcome == record::Outcome::kPass)) {
    refuse(file, "a cheat has a gate and an outcome");
  }
  if (item.shows.empty()) item.shows = {item.gate};
  std::getline(lines, line);
  constexpr std::string_view kSays = "// says: ";
  if (line.starts_with(kSays)) item.says = line.substr(kSays.size());
  return item;
}

std::vector<Item> read_all() {
  std::vector<Item> items;
  for (const fs::path& folder : {kFolder, kFolder / "honest", kFolder / "pairs"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".cpp") items.push_back(read(entry.path()));
    }
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.name < b.name; });
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
  request.cache_directory = (fs::path(RIDGE_BINARY_DIR) / "cheats-cache").string();
  request.protocol.call_timeout = 0.5;
  request.protocol.memory_limit_mib = 256;
  const record::WorkerResponse response =
      evaluate::run(request, {fs::path(RIDGE_BINARY_DIR) / "bin" / "ridge-host", {}, defences});
  if (response.checks.size() == 1 && response.checks[0].rows.size() == 1) return response.checks[0].rows[0];
  record::CheckRow row;
  row.outcome = record::Outcome::kHarnessFault;
  row.detail = response.error;
  return row;
}

std::string missing(const Item& item) {
  if (item.needs == "root" && ::geteuid() != 0) return "only a measurement started by root has a root to hide";
  // Left behind on purpose: a key that exists already is as good.
  if (item.needs == "semaphore" && ::semget(kSemaphore, 1, IPC_CREAT | 0666) < 0) return "no System V semaphores here";
  return {};
}

std::vector<Gate> defences() {
  std::vector<Gate> all;
  for (const auto& [gate, name] : record::EnumNames<Gate>::kNames) {
    const bool fact = gate == Gate::kNone || gate == Gate::kBuild || gate == Gate::kStatus || gate == Gate::kCrash;
    // Only a device has these; tests/cheats/cuda tries them.
    const bool device =
        gate == Gate::kGuardPage || gate == Gate::kDeviceCalls || gate == Gate::kCold || gate == Gate::kFloor;
    if (!fact && !device) all.push_back(gate);
  }
  return all;
}

}  // namespace ridge::cheats
