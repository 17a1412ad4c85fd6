#include "items.h"

#include <fmt/format.h>

#include <cstdlib>

#include "cheats/head_line.h"

namespace ridge::cheats {
namespace {

namespace fs = std::filesystem;

void apply(const fs::path& file, const std::string& key, const std::string& value, CudaItem& item) {
  if (key == "gate") {
    item.gate = gate_of(file, value);
  } else if (key == "outcome") {
    for (const std::string& name : words_of(value, '|')) item.outcomes.push_back(outcome_of(file, name));
  } else if (key == "shows") {
    for (const std::string& name : words_of(value, '|')) item.shows.push_back(gate_of(file, name));
  } else if (key == "case") {
    set_params(value, item.problem);
  } else if (key == "launches") {
    item.launches = std::strtoll(value.c_str(), nullptr, 10);
  } else if (key == "sanitizer") {
    item.sanitizer = value;
  } else if (key == "part") {
    for (const auto& [part, name] : evaluate::kParts) {
      if (name == value) item.part = part;
    }
    if (!item.part) refuse(file, fmt::format("\"{}\" is no part of a defence", value));
  } else if (key == "proves") {
    item.proves = true;
    for (const std::string& name : words_of(value, '|')) item.off_too.push_back(gate_of(file, name));
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
  const HeadLine head = read_head_line(file);
  item.honest = head.honest;
  item.candidate.sources = {{"kernel.cu", head.text}, {"product.cuh", header}};
  item.deterministic = head.text.find("\n// ridge: deterministic\n") != std::string::npos;
  for (const auto& [key, value] : head.words) apply(file, key, value, item);
  if (item.honest) item.outcomes = {record::Outcome::kPass};
  const bool only_not_claimed = item.outcomes == std::vector{record::Outcome::kNotClaimed};
  if (!item.honest && (item.outcomes.empty() || (item.gate == record::Defence::kNone && !only_not_claimed))) {
    refuse(file, "a cheat has an outcome, and a gate unless the outcome is NOT_CLAIMED");
  }
  if (item.shows.empty()) item.shows = {item.gate};
  return item;
}

}  // namespace

std::vector<CudaItem> cuda_items(const fs::path& folder) {
  const std::string header = text_of(folder / "product.cuh");
  std::vector<CudaItem> items;
  for (const fs::path& file : candidates_in({folder, folder / "honest"}, ".cu")) items.push_back(read(file, header));
  return items;
}

}  // namespace ridge::cheats
