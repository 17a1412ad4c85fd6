#include "project/project.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <regex>
#include <set>

#include <toml++/toml.h>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/malformed.h"

namespace ridge::project {
namespace {

namespace fs = std::filesystem;

struct Schema {
  std::string_view name, header, metric_column, time_column, backward_metric_column, backward_time_column;
  double unit;
};
constexpr Schema kSchemas[] = {
    {"gemm",
     "label,B,M,N,K,Check,Forward TFLOPS,Forward TFLOPS_stddev,Backward TFLOPS,Backward TFLOPS_stddev,"
     "Forward Time (ms),Backward Time (ms),out_snr,da_snr,db_snr",
     "Forward TFLOPS", "Forward Time (ms)", "Backward TFLOPS", "Backward Time (ms)", 1e12},
    {"memory", "label,Check,Forward GB/s,Forward GB/s_stddev,Forward Time (ms),out_snr", "Forward GB/s",
     "Forward Time (ms)", "", "", 1e9},
};

const Schema* find_schema(std::string_view name) {
  for (const Schema& schema : kSchemas) {
    if (schema.name == name) return &schema;
  }
  return nullptr;
}

// One table of the file. The first problem stays; every key that was asked for is known.
class Section {
 public:
  Section(const toml::table& file, std::string name, std::optional<Error>& problem)
      : name_(std::move(name)), table_(file[name_].as_table()), problem_(problem) {}

  void text(const char* key, std::string& value, bool needed = false) {
    const auto* node = find(key, needed);
    if (node == nullptr) return;
    if (!node->is_string()) return complain(key, "a text");
    value = **node->as_string();
    if (needed && value.empty()) complain(key, "not empty");
  }
  void number(const char* key, double& value, bool needed = false) {
    const auto* node = find(key, needed);
    if (node == nullptr) return;
    if (!node->is_number()) return complain(key, "a number");
    value = *node->value<double>();
    if (!(value > 0)) complain(key, "a positive number");
  }
  void list(const char* key, std::vector<std::string>& value, bool needed = false) {
    const auto* node = find(key, needed);
    if (node == nullptr) return;
    if (!node->is_array()) return complain(key, "a list of texts");
    for (const auto& item : *node->as_array()) {
      if (!item.is_string()) return complain(key, "a list of texts");
      value.push_back(**item.as_string());
    }
    if (needed && value.empty()) complain(key, "not empty");
  }
  void finish() {
    if (table_ == nullptr) return;
    for (const auto& [key, node] : *table_) {
      if (!known_.contains(std::string(key.str()))) complain(std::string(key.str()).c_str(), "a key that is known");
    }
  }

 private:
  const toml::node* find(const char* key, bool needed) {
    known_.insert(key);
    const toml::node* node = table_ == nullptr ? nullptr : table_->get(key);
    if (node == nullptr && needed) complain(key, "there");
    return node;
  }
  void complain(const char* key, std::string_view expected) {
    if (!problem_) problem_ = invalid("{}.{} must be {}", name_, key, expected);
  }
  std::string name_;
  const toml::table* table_;
  std::optional<Error>& problem_;
  std::set<std::string> known_;
};

bool plain_label(const std::string& label) {
  return !label.empty() && label.size() <= 80 && std::all_of(label.begin(), label.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == ':' || c == 'x';
  });
}

bool stays_inside(const std::string& path) {
  const fs::path whole(path);
  if (whole.empty() || whole.is_absolute()) return false;
  return std::none_of(whole.begin(), whole.end(), [](const fs::path& part) { return part == ".." || part == ".git"; });
}

// "./src/" is "src", as every place that compares paths of the project has it; "." is the project itself. A path with
// ".." is left alone, and refused.
std::string plain_path(const std::string& path) {
  if (path.empty() || !stays_inside(path)) return path;
  std::string plain = fs::path(path).lexically_normal().generic_string();
  if (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  return plain;
}

void make_plain(Project& p) {
  for (std::vector<std::string>* paths : {&p.kernel, &p.leave_out, &p.extract, &p.writes})
    std::ranges::transform(*paths, paths->begin(), plain_path);
  p.artifact = plain_path(p.artifact);
  if (std::ranges::find(p.extract, ".") != p.extract.end()) p.extract.clear();  // everything, as without the key
}

bool is_column(std::string_view header, std::string_view column) {
  return ("," + std::string(header) + ",").find("," + std::string(column) + ",") != std::string::npos;
}

Status check(const Project& p) {
  for (const auto& [key, paths] : {std::pair("project.kernel", &p.kernel), std::pair("project.leave_out", &p.leave_out),
                                   std::pair("commands.writes", &p.writes)}) {
    if (std::ranges::find(*paths, ".") != paths->end()) return invalid("{} \".\" is the whole project", key);
  }
  for (const std::string& path : p.kernel) {
    if (!stays_inside(path)) return invalid("project.kernel \"{}\" leaves the project", path);
  }
  if (!p.artifact.empty() && !stays_inside(p.artifact))
    return invalid("project.artifact \"{}\" leaves the project", p.artifact);
  for (const std::string& path : p.leave_out) {
    if (!stays_inside(path)) return invalid("project.leave_out \"{}\" leaves the project", path);
    if (std::find(p.kernel.begin(), p.kernel.end(), path) != p.kernel.end())
      return invalid("project.leave_out \"{}\" is one of project.kernel", path);
  }
  for (const std::string& path : p.extract) {
    if (!stays_inside(path)) return invalid("project.extract \"{}\" leaves the project", path);
  }
  std::set<std::string> seen;
  for (const std::string& label : p.shapes) {
    if (!plain_label(label)) return invalid("benchmark.shapes \"{}\" may hold letters, digits and _ - . : only", label);
    if (!seen.insert(label).second) return invalid("benchmark.shapes \"{}\" is there twice", label);
  }
  for (const std::string& column : {std::string("label"), std::string("Check"), p.metric_column, p.time_column,
                                    p.backward_metric_column, p.backward_time_column, p.p50_column, p.p99_column}) {
    if (!column.empty() && !is_column(p.header, column))
      return invalid("benchmark.header has no column \"{}\"", column);
  }
  if (p.backward_metric_column.empty() != p.backward_time_column.empty()) {
    return invalid("benchmark.backward_metric_column and backward_time_column belong together");
  }
  for (const std::string& path : p.writes) {
    if (!stays_inside(path)) return invalid("commands.writes \"{}\" leaves the project", path);
    for (const std::string& file : p.kernel) {
      if (file != path && !file.starts_with(path + "/")) continue;
      return invalid("commands.writes \"{}\" is or holds {} of project.kernel, which no command may change", path,
                     file);
    }
  }
  const auto holds = [](const Command& command, std::string_view name) {
    return std::any_of(command.begin(), command.end(),
                       [&](const std::string& word) { return word.find(name) != std::string::npos; });
  };
  const auto writes = [&](const Command& command) { return holds(command, "{csv}"); };
  if (!p.reference.empty() && !(holds(p.reference, "{out}") && holds(p.benchmark, "{out}"))) {
    return invalid(
        "commands.reference and commands.benchmark must both hold {{out}}, what one writes and the other checks");
  }
  if (!writes(p.benchmark)) return invalid("commands.benchmark must hold {{csv}}, the file that it writes");
  if (!p.training.empty() && !writes(p.training)) {
    return invalid("commands.training must hold {{csv}}, the file that it writes");
  }
  if (!p.profile.empty() && !writes(p.profile)) {
    return invalid("commands.profile must hold {{csv}}, the file that its profiler's report goes to");
  }
  try {
    if (std::regex(p.test_summary).mark_count() != 2) return invalid("commands.test_summary must capture two numbers");
  } catch (const std::regex_error&) {
    return invalid("commands.test_summary = \"{}\" is no regular expression (ECMAScript)", p.test_summary);
  }
  return ok_status();
}

}  // namespace

std::string_view frozen_header(std::string_view name) {
  const Schema* schema = find_schema(name);
  return schema == nullptr ? std::string_view() : schema->header;
}

record::Quantity quantity_of(const Project& project) {
  const auto holds = [&](const char* text) { return project.metric_column.find(text) != std::string::npos; };
  return holds("FLOP") ? record::Quantity::kFlops : holds("B/s") ? record::Quantity::kBytes : record::Quantity::kColumn;
}

Result<Project> parse_project(std::string_view text, const fs::path& root) {
  const auto refused = [&](const Error& error) {
    return with_hint(in_context(kProjectFile, error), "docs/projects.md explains every key");
  };
  toml::table file;
  try {
    file = toml::parse(text);
  } catch (const toml::parse_error& error) {
    const auto line = error.source().begin.line;
    return refused(invalid("line {}: {}", line, toml_problem(text, line, error.description())));
  }
  Project p;
  p.root = root;
  std::optional<Error> problem;
  Section project(file, "project", problem);
  project.text("op", p.op, true);
  project.text("backend", p.backend);
  project.text("language", p.language);
  project.list("kernel", p.kernel, true);
  project.text("artifact", p.artifact);
  project.text("device", p.device);
  project.list("leave_out", p.leave_out);
  project.list("extract", p.extract);
  project.text("branch", p.branch);
  project.list("constraints", p.constraints);
  project.finish();
  Section commands(file, "commands", problem);
  commands.list("prefix", p.prefix);
  commands.list("build", p.build);
  commands.list("test", p.test, true);
  commands.text("test_summary", p.test_summary, true);
  commands.list("benchmark", p.benchmark, true);
  commands.list("fresh", p.fresh, true);
  commands.list("training", p.training);
  commands.list("profile", p.profile);
  commands.list("acceptance", p.acceptance);
  commands.list("reference", p.reference);
  commands.list("writes", p.writes);
  commands.number("timeout", p.timeout);
  commands.finish();
  Section bench(file, "benchmark", problem);
  std::string schema_name = "custom";
  bench.text("schema", schema_name, true);
  const Schema* schema = find_schema(schema_name);
  if (schema != nullptr) {
    p.header = schema->header;
    p.metric_column = schema->metric_column;
    p.time_column = schema->time_column;
    p.backward_metric_column = schema->backward_metric_column;
    p.backward_time_column = schema->backward_time_column;
    p.metric_unit = schema->unit;
  } else if (schema_name != "custom" && !problem) {
    problem = invalid("benchmark.schema \"{}\" is not gemm, memory or custom", schema_name);
  }
  bench.text("header", p.header, schema == nullptr);
  bench.text("metric_column", p.metric_column, schema == nullptr);
  bench.text("time_column", p.time_column, schema == nullptr);
  bench.text("backward_metric_column", p.backward_metric_column);
  bench.text("backward_time_column", p.backward_time_column);
  bench.text("p50_column", p.p50_column);
  bench.text("p99_column", p.p99_column);
  bench.number("metric_unit", p.metric_unit, schema == nullptr);
  bench.number("peak", p.peak, true);
  bench.number("min_snr_db", p.min_snr_db);
  bench.number("snr_margin_db", p.snr_margin_db);
  bench.number("launches", p.launches);
  bench.list("shapes", p.shapes, true);
  bench.finish();
  if (schema != nullptr && p.header != schema->header && !problem) {
    problem = invalid("benchmark.header is not the frozen one of schema {}", schema_name);
  }
  if (problem) return refused(*problem);
  for (Command* command : {&p.build, &p.test, &p.benchmark, &p.training, &p.profile, &p.acceptance, &p.reference}) {
    if (!command->empty()) command->insert(command->begin(), p.prefix.begin(), p.prefix.end());
  }
  make_plain(p);
  if (const Status sound = check(p); !sound) return refused(sound.error());
  p.digest = sha256(text);
  return p;
}

Result<Project> read_project(const fs::path& given) {
  std::error_code ignored;
  const fs::path path = fs::is_directory(given, ignored) ? given / kProjectFile : given;
  RIDGE_TRY(text, read_file(path));
  return parse_project(text, fs::absolute(path).lexically_normal().parent_path());
}

Project extracted_part(Project project) {
  if (project.extract.empty()) return project;
  project.only = project.extract;
  project.only.insert(project.only.end(), project.kernel.begin(), project.kernel.end());
  project.only.emplace_back(kProjectFile);
  return project;
}

Result<record::Candidate> baseline_of(const Project& project) {
  record::Candidate candidate;
  candidate.op = project.op;
  candidate.backend = project.backend;
  candidate.name = "as handed in";
  for (const std::string& path : project.kernel) {
    RIDGE_TRY(text, read_file(project.root / path));
    candidate.sources.push_back({path, std::move(text)});
  }
  return candidate;
}

Command filled(const Command& command, const Fill& fill) {
  const std::map<std::string, std::string> values = {{"{csv}", fill.csv},
                                                     {"{shapes}", fill.shapes},
                                                     {"{root}", fill.root},
                                                     {"{out}", fill.out},
                                                     {"{seed}", fill.seed}};
  Command result = command;
  for (std::string& word : result) {
    for (const auto& [name, value] : values) {
      for (std::size_t at = word.find(name); at != std::string::npos; at = word.find(name, at + value.size())) {
        word.replace(at, name.size(), value);
      }
    }
  }
  return result;
}

Result<record::Case> case_of(const std::string& op, const std::string& label) {
  return record::parse_case(op + " label=" + label);
}

std::string label_of(const record::Case& one) { return one.get("label"); }

}  // namespace ridge::project
