#include "record/tuned.h"

#include "base/error.h"
#include "record/json.h"

namespace ridge::record {

Result<std::vector<TunedChoice>> parse_tuned(std::string_view text, std::string_view file) {
  std::vector<TunedChoice> choices;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty()) continue;
    auto choice = parse_record<TunedChoice>(std::string(line));
    if (!choice) return in_context(fmt::format("{}, line {}", file, number), choice.error());
    if (choice->version != TunedChoice{}.version) {
      return invalid("{}, line {}: version {}, this program reads version {}", file, number, choice->version,
                     TunedChoice{}.version);
    }
    choices.push_back(std::move(*choice));
  }
  return choices;
}

std::string tuned_line(const TunedChoice& choice) { return to_line(choice) + "\n"; }

std::string tuned_file_name(std::string_view device) {
  std::string name;
  for (const char c : device) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    const bool upper = c >= 'A' && c <= 'Z';
    if (kept || upper) {
      name += upper ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return (name.empty() ? "device" : name) + ".jsonl";
}

}  // namespace ridge::record
