#include "hardware/lint.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "hardware/physics.h"
#include "hardware/text.h"

namespace ridge::hardware {
namespace {

constexpr std::string_view kHedges[] = {
    "approximately",   "approx",    "roughly",    "around", "about",     "usually",
    "typically",       "probably",  "presumably", "likely", "should be", "similar to",
    "similar product", "estimated", "i think",    "maybe",  "perhaps",   "or so"};

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// What kind of page a source is on decides what evidence it can be.
Evidence evidence_of_page(std::string_view source) {
  if (source.starts_with("third-party/")) return Evidence::kThirdParty;
  if (source.starts_with("derived/")) return Evidence::kDerived;
  if (source.starts_with("measured/")) return Evidence::kMeasured;
  return Evidence::kVendor;
}

class DatabaseLint {
 public:
  explicit DatabaseLint(const Database& database) : database_(database) {}

  std::vector<Finding> run() {
    pages();
    names();
    for (const Spec& spec : database_.specs()) one(spec);
    return std::move(findings_);
  }

 private:
  template <class... Args>
  void add(const std::string& file, int line, const char* rule, fmt::format_string<Args...> format, Args&&... args) {
    findings_.push_back({file, line, rule, fmt::format(format, std::forward<Args>(args)...)});
  }

  void pages() {
    for (const auto& [path, page] : database_.wiki().pages()) {
      const std::string file = "wiki/" + path;
      if (page.locked_digest.empty()) {
        add(file, 0, "page", "not in pages.sha256: check its facts, then ridge spec lint --relock");
      } else if (page.edited()) {
        add(file, 0, "page", "edited since its facts were checked: check them again, then ridge spec lint --relock");
      }
      for (const WikiRow& row : page.rows) {
        if (find_metric(row.metric) == nullptr) add(file, row.line, "page", "there is no metric \"{}\"", row.metric);
        if (const Result<Quantity> value = parse_quantity(row.text); !value) {
          add(file, row.line, "page", "{}", value.error().text());
        }
        if (const std::string_view hedge = find_hedge(row.where); !hedge.empty()) {
          add(file, row.line, "hedge", "\"{}\" weakens a source", hedge);
        }
      }
    }
    for (const std::string& path : database_.wiki().deleted()) add("wiki/" + path, 0, "page", "deleted");
  }

  void names() {
    std::map<std::string, std::string> seen;
    for (const Spec& spec : database_.specs()) {
      const Result<const Spec*> found = database_.find(spec.name);
      if (!found || *found != &spec) add(spec.file, 0, "name", "\"{}\" does not find this file alone", spec.name);
      for (const std::string& alias : spec.aliases) {
        if (const Result<const Spec*> other = database_.find(alias); !other || *other != &spec) {
          add(spec.file, 0, "name", "alias \"{}\" does not find this file alone", alias);
        }
      }
    }
  }

  void one(const Spec& spec) {
    for (const Metric& metric : metrics()) {
      if (spec.is_gpu() && metric.of_every_gpu && spec.find(metric.name) == nullptr) {
        add(spec.file, 0, "missing", "{} is not stated; write unknown = \"<why>\" where no source states it",
            metric.name);
      }
    }
    for (const Fact& fact : spec.facts) one_fact(spec, fact);
    for (const Violation& violation : check_physics(spec)) {
      const Fact* fact = spec.find(violation.metric);
      add(spec.file, fact != nullptr ? fact->line : 0, "physics", "{}: {}", violation.rule, violation.message);
    }
  }

  void one_fact(const Spec& spec, const Fact& fact) {
    for (const std::string* text : {&fact.reason, &fact.conflict}) {
      if (const std::string_view hedge = find_hedge(*text); !hedge.empty()) {
        add(spec.file, fact.line, "hedge", "{}: \"{}\"", fact.metric->name, hedge);
      }
    }
    if (fact.state != State::kKnown) return;
    source(spec, fact, fact.value, fact.from);
    if (evidence_of_page(fact.from) != fact.evidence) {
      add(spec.file, fact.line, "evidence", "{} calls itself {} evidence and cites {}", fact.metric->name,
          to_string(fact.evidence), fact.from);
    }
    for (const OtherSource& other : fact.also) source(spec, fact, other.value, other.from);
    if (fact.conflict_status() == "open") {
      add(spec.file, fact.line, "conflict", "{}: sources differ ({} and {}), and nothing says which holds",
          fact.metric->name, fact.value.text, fact.also.front().value.text);
    }
  }

  void source(const Spec& spec, const Fact& fact, const Quantity& value, const std::string& from) {
    const Result<const WikiRow*> row = database_.wiki().resolve(from, fact.metric->name);
    if (!row) {
      add(spec.file, fact.line, "citation", "{}: {}", fact.metric->name, row.error().message);
    } else if ((*row)->text != value.text) {
      add(spec.file, fact.line, "citation", "{} is {}, and {} says {}", fact.metric->name, value.text, from,
          (*row)->text);
    }
  }

  const Database& database_;
  std::vector<Finding> findings_;
};

// A number directly before a unit of rates, memory or clocks: what only a cited fact may state.
bool states_hardware_number(std::string_view line) {
  constexpr std::string_view kRates[] = {"TFLOPS", "PFLOPS", "GFLOPS", "TFLOP/s", "TOPS", "TB/s", "GB/s", "GHz", "MHz",
                                         "GB",     "GiB",    "MB",     "MiB",     "KiB",  "KB",   "SMs",  "CUs"};
  for (const std::string_view unit : kRates) {
    for (std::size_t at = line.find(unit); at != std::string_view::npos; at = line.find(unit, at + 1)) {
      const std::size_t digit = line.substr(0, at).find_last_not_of(' ');
      const bool ends = at + unit.size() >= line.size() || !is_word(line[at + unit.size()]);
      if (digit != std::string_view::npos && std::isdigit(static_cast<unsigned char>(line[digit])) != 0 && ends)
        return true;
    }
  }
  return false;
}

void check_citation(const Database& database, const Citation& citation, const std::string& file, int line,
                    TextLint& lint) {
  const auto add = [&](const char* rule, std::string message) {
    lint.findings.push_back({file, line, rule, std::move(message)});
  };
  const Metric* metric = find_metric(citation.metric);
  if (metric == nullptr) return add("citation", fmt::format("there is no metric \"{}\"", citation.metric));
  if (citation.unknown) return lint.gaps.push_back(citation.metric);
  ++lint.citations;
  const Result<Quantity> value = parse_quantity(citation.text);
  if (!value) return add("citation", value.error().text());
  if (value->dimension != metric->dimension) {
    return add("citation", fmt::format("{}: {} is {}, and the metric is {}", citation.metric, citation.text,
                                       to_string(value->dimension), to_string(metric->dimension)));
  }
  const Result<const WikiRow*> row = database.wiki().resolve(citation.source, citation.metric);
  if (!row) return add("citation", row.error().message);
  if ((*row)->text != citation.text) {
    return add("citation", fmt::format("{}: {} is written here, and {} says {}", citation.metric, citation.text,
                                       citation.source, (*row)->text));
  }
  const std::string page = citation.source.substr(0, citation.source.find(':'));
  if (database.wiki().pages().at(page).edited())
    add("page", fmt::format("{} was edited since its facts were checked", page));
}

}  // namespace

std::string_view find_hedge(std::string_view text) {
  const std::string words = lower(text);
  for (const std::string_view hedge : kHedges) {
    for (std::size_t at = words.find(hedge); at != std::string::npos; at = words.find(hedge, at + 1)) {
      const std::size_t end = at + hedge.size();
      if ((at == 0 || !is_word(words[at - 1])) && (end == words.size() || !is_word(words[end]))) return hedge;
    }
  }
  return text.find('~') != std::string_view::npos ? std::string_view("~") : std::string_view{};
}

Citation parse_citation(std::string_view line) {
  line = trimmed(line);
  while (!line.empty() && (line.front() == '-' || line.front() == '*' || line.front() == '`' || line.front() == ' ')) {
    line.remove_prefix(1);
  }
  while (!line.empty() && line.back() == '`') line.remove_suffix(1);
  const std::size_t colon = line.find(": ");
  if (colon == std::string_view::npos || colon == 0) return {};
  const std::string_view metric = line.substr(0, colon);
  if (!std::all_of(metric.begin(), metric.end(), is_word)) return {};
  const std::string_view rest = line.substr(colon + 2);
  if (rest.starts_with("UNKNOWN (") && rest.ends_with(")")) return {std::string(metric), {}, {}, true};
  const std::size_t arrow = rest.find(" <- ");
  if (arrow == std::string_view::npos) return {};
  return {std::string(metric), std::string(rest.substr(0, arrow)), std::string(trimmed(rest.substr(arrow + 4))), false};
}

std::vector<Finding> lint_database(const Database& database) { return DatabaseLint(database).run(); }

TextLint lint_text(const Database& database, const std::string& file, std::string_view text) {
  TextLint lint;
  bool spec_section = false, code = false;
  for (const auto& [number, line] : lines(text)) {
    if (line.starts_with("```")) code = !code;
    if (line.starts_with("#") && !code) spec_section = lower(line).find("hardware spec") != std::string::npos;
    const Citation citation = parse_citation(line);
    const bool cites = !citation.metric.empty();
    if (cites &&
        (spec_section || find_metric(citation.metric) != nullptr || line.find(" <- ") != std::string_view::npos)) {
      check_citation(database, citation, file, number, lint);
    }
    if (!spec_section) continue;
    if (const std::string_view hedge = find_hedge(citation.unknown ? std::string_view{} : line); !hedge.empty()) {
      lint.findings.push_back({file, number, "hedge", fmt::format("\"{}\" in a hardware spec", hedge)});
    }
    if (!cites && states_hardware_number(line)) {
      lint.findings.push_back(
          {file, number, "unregistered", fmt::format("a hardware number without a source: {}", trimmed(line))});
    }
  }
  return lint;
}

}  // namespace ridge::hardware
