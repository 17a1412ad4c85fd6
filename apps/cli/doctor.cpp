// ridge doctor: what this machine can do, what is missing, and how to get it.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "say.h"
#include "service/machine.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

using record::Capability;

constexpr std::string_view kGpuParts[] = {"CUDA GPU", "CUDA compiler", "GPU telemetry"};
constexpr std::string_view kPythonParts[] = {"Python", "PyTorch", "ridgeline.torch"};

enum class Section { kNeeded, kMeasuring, kGpu, kPython, kImplementation };

Section section_of(const Capability& capability) {
  const auto among = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), capability.name) != std::end(names);
  };
  if (service::is_essential(capability)) return Section::kNeeded;
  if (among(kGpuParts)) return Section::kGpu;
  if (among(kPythonParts)) return Section::kPython;
  const std::string second =
      capability.name.substr(std::min(capability.name.find(' '), capability.name.size() - 1) + 1);
  return second == "reference" || second.starts_with("cpu_") ? Section::kImplementation : Section::kMeasuring;
}

void print_facts(const record::Environment& environment, std::size_t width) {
  constexpr std::size_t kColumn = 26;
  for (const auto& [name, value] : environment.facts) {
    const std::size_t room = width > 2 * kColumn ? width - kColumn : 0;
    say("  {:<{}}{}\n", name, kColumn - 2, wrapped(value, room, kColumn));
  }
}

void print_section(const char* title, Section section, const std::vector<Capability>& all, std::size_t width) {
  constexpr std::size_t kColumn = 32;
  say("\n{}\n", painted(Paint::kStrong, title));
  for (const Capability& one : all) {
    if (section_of(one) != section) continue;
    // Without the process that it would isolate, a lack of isolation is no news; a lack of a GPU is no fault.
    const std::string mark = one.available                 ? painted(Paint::kGood, "ok ")
                             : section == Section::kNeeded ? painted(Paint::kBad, "NO ")
                                                           : painted(Paint::kWarning, "-- ");
    const std::size_t room = width > 2 * kColumn ? width - kColumn : 0;
    say("  {} {:<{}}{}\n", mark, one.name, kColumn - 6, wrapped(one.detail, room, kColumn));
    if (!one.available && !one.remedy.empty())
      say("      {}\n", wrapped("to get it: " + one.remedy, width > 40 ? width - 6 : 0, 6));
  }
}

// One line per operator: what runs here, then what does not, with its reason.
void print_implementations(const std::vector<Capability>& all, std::size_t width) {
  std::map<std::string, std::pair<std::string, std::string>> by_operator;
  for (const Capability& one : all) {
    if (section_of(one) != Section::kImplementation) continue;
    const std::size_t space = one.name.find(' ');
    auto& [runs, not_here] = by_operator[one.name.substr(0, space)];
    const std::string name = one.name.substr(space + 1);
    if (one.available) {
      runs += (runs.empty() ? "" : ", ") + name;
    } else {
      not_here += fmt::format("{}{} ({})", not_here.empty() ? "" : ", ", name, one.detail);
    }
  }
  say("\n{}\n", painted(Paint::kStrong, "Implementations on this processor, best first"));
  for (const auto& [op, lists] : by_operator) {
    say("  {:<20}{}\n", op, wrapped(lists.first, width > 40 ? width - 22 : 0, 22));
    if (!lists.second.empty())
      say("  {:<20}{}\n", "", wrapped("not here: " + lists.second, width > 40 ? width - 22 : 0, 22));
  }
}

int doctor(const Context& context) {
  const Result<record::WorkerResponse> response = service::examine_machine(context);
  if (!response) return fail(response.error());
  const std::vector<Capability>& all = response->capabilities;
  const std::string missing = service::missing_essentials(all);
  if (globals().json) return print_json(*response, missing.empty() ? kSuccess : kNo);
  const std::size_t width = terminal_width(stdout);
  say("{}\n", painted(Paint::kStrong, "This machine"));
  print_facts(response->environment.value_or(record::Environment()), width);
  print_section("Needed by checks and campaigns", Section::kNeeded, all, width);
  print_section("Isolation of candidates, and measuring", Section::kMeasuring, all, width);
  print_section("GPU", Section::kGpu, all, width);
  print_section("PyTorch front end (import ridgeline.torch)", Section::kPython, all, width);
  print_implementations(all, width);
  if (!missing.empty()) {
    say("\nMissing: {}. Checks and campaigns cannot run here.\n", missing);
    return kNo;
  }
  say("\nChecks and campaigns can run here. Next: ridge optimize gemm --yes --budget 5m\n");
  return kSuccess;
}

}  // namespace

void define_doctor(Command root) {
  root.subcommand("doctor", "Say what this machine can do and what is missing")
      .example("ridge doctor", "a screenful for people, with the command that installs what is missing")
      .example("ridge doctor --json", "the same for programs")
      .exits({{kNo, "something that checks or campaigns need is missing"}, kSystem, kInterrupted})
      .json("the facts of this machine, and a list of what it can do with details and remedies")
      .action(doctor);
}

}  // namespace ridge::cli
