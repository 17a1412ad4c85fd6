#include "campaign/commands.h"

#include "base/error.h"
#include "base/process.h"
#include "campaign/manifest.h"
#include "record/execution.h"

namespace ridge::campaign {
namespace {

constexpr const char* kCommandKeys[] = {"test_command",    "benchmark_command", "quick_command",
                                        "profile_command", "base_branch",       "project_skill"};

// The accepted source in the campaign's own worktree, with the tunables that the campaign began with.
std::string kernel_words(const record::Candidate& baseline) {
  std::string words = fmt::format("\"${{CAMPAIGN_DIR}}/src/{}\"", baseline.sources.front().path);
  for (const auto& [name, value] : baseline.defines) words += fmt::format(" -D {}={}", name, value);
  return words;
}

std::string all_shapes(const record::CampaignSpec& spec) {
  std::vector<std::string> labels;
  for (const record::Case& one : spec.target_cases) labels.push_back(one.label());
  return quote_command(labels);
}

std::map<std::string, std::string> commands_of_operator(const record::CampaignSpec& spec,
                                                        const record::Candidate& baseline) {
  const std::string kernel = kernel_words(baseline), op = spec.op, shapes = all_shapes(spec);
  const std::string threads = spec.protocol.threads == 1 ? "" : fmt::format(" --threads {}", spec.protocol.threads);
  const std::string benchmark = fmt::format("ridge bench {} {} --candidate {}{}", op, shapes, kernel, threads);
  return {{"test_command", fmt::format("ridge check {} --candidate {}{}", op, kernel, threads)},
          {"benchmark_command", benchmark},
          {"quick_command", fmt::format("ridge try {} --op {} {}{}", kernel, op, shapes, threads)},
          {"profile_command", fmt::format("ridge profile --campaign \"${{CAMPAIGN_DIR}}\" -- {}", benchmark)},
          {"project_skill", "ridgeline"}};
}

// A project's quick look is its benchmark in fewer processes; Check of every row is its test where it names no other.
std::map<std::string, std::string> commands_of_project(const record::CampaignSpec& spec) {
  const std::string benchmark = extra_text(spec, "benchmark_command");
  return {{"test_command", benchmark},
          {"quick_command", benchmark},
          {"profile_command", fmt::format("ridge profile --campaign \"${{CAMPAIGN_DIR}}\" -- {}", benchmark)},
          {"project_skill", "ridge-project.toml"}};
}

}  // namespace

void describe_commands(record::CampaignSpec& spec, const record::Candidate& baseline) {
  std::map<std::string, std::string> commands =
      record::is_of_project(spec) ? commands_of_project(spec) : commands_of_operator(spec, baseline);
  commands["base_branch"] = "none";  // the campaign's own repository in src/ begins with its branch
  for (const auto& [key, text] : commands) {
    if (extra_text(spec, key).empty() && !text.empty()) spec.extra[key] = yaml_text(text);
  }
}

std::vector<std::string> missing_commands(const record::CampaignSpec& spec) {
  std::vector<std::string> missing;
  for (const char* key : kCommandKeys) {
    if (extra_text(spec, key).empty()) missing.emplace_back(key);
  }
  return missing;
}

}  // namespace ridge::campaign
