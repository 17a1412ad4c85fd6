#include "fuzz/structure.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "record/journal.h"
#include "record/json.h"

namespace ridge::fuzz {
namespace {

constexpr std::size_t kMostNodes = 4096;

void collect(Json& value, std::vector<Json*>& nodes) {
  if (nodes.size() >= kMostNodes) return;
  nodes.push_back(&value);
  if (!value.is_structured()) return;
  for (Json& child : value) collect(child, nodes);
}

Json extreme(std::mt19937_64& random) {
  static const std::vector<Json> kValues = {0,
                                            1,
                                            -1,
                                            2,
                                            255,
                                            65536,
                                            2147483647,
                                            -2147483648LL,
                                            4294967297LL,
                                            1e308,
                                            -1e308,
                                            1e-308,
                                            0.5,
                                            -0.0,
                                            INT64_MAX,
                                            INT64_MIN,
                                            UINT64_MAX,
                                            true,
                                            false,
                                            nullptr,
                                            "",
                                            "0",
                                            "nan",
                                            "-1",
                                            "\x1b[31m",
                                            "../../etc",
                                            "a\nb",
                                            "gemm",
                                            "FASTER",
                                            "none",
                                            "round-2/evaluate",
                                            "1e999",
                                            Json::array(),
                                            Json::object(),
                                            std::string(300, 'x')};
  return kValues[random() % kValues.size()];
}

// One change inside of the values of a line.
void change_value(Json& line, std::mt19937_64& random) {
  std::vector<Json*> nodes;
  collect(line, nodes);
  Json& node = *nodes[random() % nodes.size()];
  const std::size_t children = node.is_structured() ? node.size() : 0;
  switch (random() % 6) {
    case 0:
      if (children != 0) {
        const auto at = std::next(node.begin(), static_cast<std::ptrdiff_t>(random() % children));
        node.erase(at);
        return;
      }
      break;
    case 1:
      if (node.is_array() && children != 0) {
        const Json again = node[random() % children];
        node.push_back(again);
        return;
      }
      break;
    case 2: {
      const Json other = *nodes[random() % nodes.size()];
      node = other;
      return;
    }
    case 3:
      if (node.is_number_integer()) {
        node = static_cast<std::int64_t>(node.get<std::uint64_t>() + random() % 5 - 2);
        return;
      }
      if (node.is_number_float()) {
        node = node.get<double>() * (random() % 2 == 0 ? -1.0 : 1e9);
        return;
      }
      if (node.is_string()) {
        std::string text = node.get<std::string>();
        if (!text.empty()) text[random() % text.size()] = static_cast<char>(32 + random() % 95);
        node = text;
        return;
      }
      break;
    default: break;
  }
  if (!node.is_structured() || random() % 4 == 0) node = extreme(random);
}

std::string joined(const std::vector<std::string>& lines) { return fmt::format("{}", fmt::join(lines, "\n")); }

Json shortened(const Json& value) {
  constexpr std::size_t kElements = 2, kBytes = 120;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    return text.size() > kBytes ? Json(text.substr(0, 64)) : value;
  }
  if (value.is_object()) {
    Json result = Json::object();
    for (const auto& [key, child] : value.items()) result[key] = shortened(child);
    return result;
  }
  if (!value.is_array()) return value;
  Json result = Json::array();
  for (std::size_t i = 0; i < value.size() && i < kElements; ++i) result.push_back(shortened(value[i]));
  return result;
}

}  // namespace

std::string change_json_lines(std::string_view text, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::string> lines = split(text, '\n');
  for (std::uint64_t changes = 1 + random() % 4; changes > 0 && !lines.empty(); --changes) {
    const std::size_t at = random() % lines.size(), other = random() % lines.size();
    switch (random() % 16) {
      case 0: lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at)); break;
      case 1: lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), std::string(lines[other])); break;
      case 2: std::swap(lines[at], lines[other]); break;
      default: {
        Result<Json> value = parse_json(lines[at]);
        if (!value) break;
        change_value(*value, random);
        lines[at] = dump_json(*value);
      }
    }
  }
  return joined(lines);
}

std::string chained_anew(std::string_view text) {
  std::string chained, previous(64, '0');
  for (std::int64_t sequence = 0; !text.empty(); ++sequence) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    Result<record::Event> event = record::parse_record<record::Event>(text.substr(0, end), "event");
    if (!event) break;
    event->sequence = sequence;
    event->previous = previous;
    previous = event->hash = record::event_hash(*event);
    chained += record::to_line(*event) + '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return chained;
}

std::string thinned_journal(std::string_view text) {
  std::vector<std::string> lines = split(text, '\n');
  for (std::string& line : lines) {
    if (const Result<Json> value = parse_json(line)) line = dump_json(shortened(*value));
  }
  return chained_anew(joined(lines));
}

}  // namespace ridge::fuzz
