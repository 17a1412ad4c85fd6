#include "items.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "base/files.h"

namespace ridge::cheats {
namespace {

namespace fs = std::filesystem;

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

void apply(const fs::path& file, const std::string& key, const std::string& value, CudaItem& item) {
  if (key == "gate") {
    item.gate = value_of<record::Gate>(file, value);
  } else if (key == "outcome") {
    for (const std::string& name : split(value, '|')) item.outcomes.push_back(value_of<record::Outcome>(file, name));
  } else if (key == "shows") {
    for (const std::string& name : split(value, '|')) item.shows.push_back(value_of<record::Gate>(file, name));
  } else if (key == "case") {
    for (const std::string& param : split(value, ',')) {
      item.problem.set(param.substr(0, param.find('=')), param.substr(param.find('=') + 1));
    }
  } else if (key == "launches") {
    item.launches = std::strtoll(value.c_str(), nullptr, 10);
  } else if (key == "sanitizer") {
    item.sanitizer = value;
  } else if (key == "proves") {
    item.proves = true;
  } else {
    refuse(file, fmt::format("\"{}\" is no key", key));
  }
}

CudaItem read(const fs::path& file, const std::string& header) {
  CudaItem item;
  item.name = file.stem().string();
  item.problem = *record::parse_case("gemm m=200 n=232 k=264");
  item.candidate.op = "gemm";
  item.candidate.backend = "cuda";
  item.candidate.name = item.name;
  const std::string text = text_of(file);
  item.candidate.sources = {{"kernel.cu", text}, {"product.cuh", header}};
  item.deterministic = text.find("\n// ridge: deterministic\n") != std::string::npos;
  std::string line = text.substr(0, text.find('\n'));
  item.honest = line.starts_with("// ridge-honest:");
  if (!item.honest && !line.starts_with("// ridge-cheat:"))
    refuse(file, "its first line says neither cheat nor honest");
  for (const std::string& word : split(line.substr(line.find(':') + 1), ' ')) {
    const std::size_t equals = word.find('=');
    apply(file, word.substr(0, equals), equals == std::string::npos ? "" : word.substr(equals + 1), item);
  }
  if (item.honest) item.outcomes = {record::Outcome::kPass};
  if (!item.honest && (item.gate == record::Gate::kNone || item.outcomes.empty())) {
    refuse(file, "a cheat has a gate and an outcome");
  }
  if (item.shows.empty()) item.shows = {item.gate};
  return item;
}

}  // namespace

std::vector<CudaItem> cuda_items(const fs::path& folder) {
  const std::string header = text_of(folder / "product.cuh");
  std::vector<CudaItem> items;
  for (const fs::path& each : {folder, folder / "honest"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(each)) {
      if (entry.path().extension() == ".cu") items.push_back(read(entry.path(), header));
    }
  }
  std::sort(items.begin(), items.end(), [](const CudaItem& a, const CudaItem& b) { return a.name < b.name; });
  return items;
}

}  // namespace ridge::cheats
