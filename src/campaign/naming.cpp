#include "campaign/naming.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/hash.h"
#include "campaign/gates.h"
#include "campaign/render.h"
#include "campaign/rules/rule.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

struct Language {
  std::string_view backend, language;
};
constexpr Language kLanguages[] = {{"cpu", "c++"},       {"cpu", "c"},    {"cpu", "python"},  {"cuda", "c++"},
                                   {"cuda", "cuda"},     {"cuda", "ptx"}, {"cuda", "python"}, {"cuda", "cutedsl"},
                                   {"triton", "triton"}, {"hip", "hip"},  {"hip", "c++"},     {"hip", "python"}};

// What the tables of an operator of Ridgeline give.
struct MetricColumn {
  std::string_view name, column;
};
constexpr MetricColumn kMetrics[] = {{"forward_tflops", "Forward TFLOPS"},
                                     {"backward_tflops", "Backward TFLOPS"},
                                     {"combined_step_tflops", "Backward Time (ms)"},
                                     {"forward_gbps", "Forward GB/s"},
                                     {"latency", "Forward Time (ms)"},
                                     {"forward_time", "Forward Time (ms)"}};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool is_column(std::string_view header, std::string_view column) {
  for (std::size_t at = 0; at <= header.size();) {
    const std::size_t end = std::min(header.find(',', at), header.size());
    if (header.substr(at, end - at) == column) return true;
    at = end + 1;
  }
  return false;
}

// The rules as they are: what they are called, where they are asked and what they say.
std::string digest_of_rules() {
  std::map<int, std::string> lines;
  const auto add = [&](const auto& rule) {
    lines[rule.number] = fmt::format("{} {} {} {}\n", rule.number, rule.name, record::name_of(rule.phase), rule.says);
  };
  for (const Rule& rule : rules()) add(rule);
  for (const ConstructedRule& rule : rules_by_construction()) add(rule);
  std::string text;
  for (const auto& [number, line] : lines) text += line;
  return sha256(text);
}

}  // namespace

std::string short_machine_name(std::string_view model) {
  std::string name, word;
  const auto take = [&] {
    if (!word.empty() && word != "processor" && word != "cpu" && word != "r" && word != "tm") {
      name += (name.empty() ? "" : "-") + word;
    }
    word.clear();
  };
  for (const char c : model.substr(0, model.find('@'))) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else {
      take();
    }
  }
  take();
  return name.empty() ? "cpu" : name;
}

std::string language_problem(std::string_view backend, std::string_view language) {
  std::string known;
  for (const Language& row : kLanguages) {
    if (row.backend != backend) continue;
    if (row.language == lower(language)) return {};
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.language);
  }
  if (known.empty()) return fmt::format("backend \"{}\" is not known", backend);
  return fmt::format("kernels for {} are written in {}, not in {}", backend, known, language);
}

std::string metric_problem(std::string_view metric, std::string_view header) {
  std::string known;
  for (const MetricColumn& row : kMetrics) {
    if (row.name == metric) {
      return is_column(header, row.column) ? std::string()
                                           : fmt::format("{} needs the column \"{}\"", metric, row.column);
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  return fmt::format("primary_metric \"{}\" is not one of {}", metric, known);
}

std::string id_problem(const record::CampaignSpec& spec) {
  const std::string& id = spec.id;
  if (id.empty() || id.size() > 96)
    return fmt::format("the campaign's name has {} characters, 1 to 96 are allowed", id.size());
  for (const char c : id) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '-') {
      return fmt::format("the campaign's name \"{}\" may hold letters, digits, _ and - only", id);
    }
  }
  const std::string wanted = fmt::format("{}_{}_", lower(spec.op), lower(spec.backend));
  const std::string date = id.substr(id.rfind('_') + 1);
  const bool dated = date.size() >= 8 &&
                     std::all_of(date.begin(), date.begin() + 8, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!lower(id).starts_with(wanted) || !dated) {
    return fmt::format("the campaign's name \"{}\" is not <op>_<backend>_<device>_<date>, for instance {}xeon_20260101",
                       id, wanted);
  }
  return {};
}

std::string branch_name(const record::CampaignSpec& spec) {
  if (spec.git_branch == "none") return {};
  return spec.git_branch.empty() || spec.git_branch == "auto" ? "optimize/" + spec.id : spec.git_branch;
}

// The rules of git for the name of a reference (git help check-ref-format).
std::string branch_problem(const record::CampaignSpec& spec) {
  const std::string& name = spec.git_branch;
  if (branch_name(spec) != name) return {};
  bool sound = name.size() <= 200 && name != "@" && !name.starts_with('-') && name.find("@{") == std::string::npos;
  for (std::size_t at = 0; sound && at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    const std::string part = name.substr(at, end - at);
    sound = !part.empty() && !part.starts_with('.') && !part.ends_with('.') && !part.ends_with(".lock") &&
            part.find("..") == std::string::npos && std::none_of(part.begin(), part.end(), [](unsigned char c) {
              return c <= ' ' || c == 127 ||
                     std::string_view("~^:?*[\\").find(static_cast<char>(c)) != std::string_view::npos;
            });
    at = end + 1;
  }
  return sound ? std::string() : fmt::format("git_branch \"{}\" is not auto, none or the name of a branch", name);
}

std::map<std::string, std::string> frozen_digests(const State& state) {
  std::string shapes;
  for (const record::Case& one : state.spec().target_cases) shapes += one.text() + "\n";
  return {{"target_shapes", sha256(shapes)},
          {"protocol", sha256(record::to_line(state.spec().protocol))},
          {"benchmark_header", sha256(benchmark_header(state.spec().target_cases))},
          {"baseline", state.created->baseline.id()},
          {"rules", digest_of_rules()},
          {kRebuildGate, sha256("both arms are built again past the cache")}};
}

}  // namespace ridge::campaign
