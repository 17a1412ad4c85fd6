#include "campaign/machines.h"

#include "base/error.h"
#include "campaign/manifest.h"
#include "execute/make_executor.h"
#include "propose/sweep_size.h"
#include "record/backend.h"
#include "record/execution.h"

namespace ridge::campaign {
namespace {

// Looks guide what is measured: they are of the kind of machine that measures, and leave it alone while they last.
Status check_screens(const record::CampaignSpec& spec, const Machines& machines) {
  if (execute::is_default(machines.screen) || !execute::is_local(machines.screen)) return ok_status();
  if (!execute::is_local(machines.measure))
    return with_hint(
        invalid("{} {} is this machine, and {} is {}", kScreenOnKey, machines.screen, kMeasureOnKey, machines.measure),
        "looks guide what is measured: make them on machines of the kind that measures");
  if (!record::runs_on_host(spec.backend)) return ok_status();
  return with_hint(invalid("{} {} names GPUs, and the campaign is on {}", kScreenOnKey, machines.screen, spec.backend),
                   "leave it out, or name other machines of this kind: ssh:HOST,HOST");
}

// More devices look at more configurations in the same time. A number that a person wrote stays.
Status size_sweeps(record::CampaignSpec& spec, const Machines& machines) {
  if (!execute::is_default(machines.screen) && !spec.extra.contains(propose::kSweepMostKey)) {
    RIDGE_TRY(devices, execute::width_of(machines.screen));
    if (devices > 1) spec.extra[propose::kSweepMostKey] = fmt::format("{}", propose::sweep_most_of(devices));
  }
  const Result<std::size_t> most = propose::sweep_most(spec);
  return most ? ok_status() : Status(most.error());
}

}  // namespace

bool Machines::elsewhere() const { return !execute::is_default(measure) || !execute::is_default(build); }

bool Machines::any() const { return elsewhere() || !execute::is_default(screen) || !replicate.empty(); }

Status set_machines(record::CampaignSpec& spec, const Machines& machines) {
  const std::pair<const char*, const std::string*> places[] = {{kBuildOnKey, &machines.build},
                                                               {kMeasureOnKey, &machines.measure},
                                                               {kScreenOnKey, &machines.screen},
                                                               {kReplicateOnKey, &machines.replicate}};
  for (const auto& [key, place] : places) {
    if (place->empty()) continue;
    if (const Status known = execute::check_executor(*place); !known) return in_context(key, known.error());
    if (!execute::is_default(*place) || place == &machines.replicate) spec.extra[key] = yaml_text(*place);
  }
  RIDGE_CHECK_OK(check_screens(spec, machines));
  RIDGE_CHECK_OK(size_sweeps(spec, machines));
  if (!machines.replicate.empty() && execute::is_default(machines.replicate) && execute::is_default(machines.measure)) {
    return with_hint(invalid("{}: {} is the device that the campaign measures on", kReplicateOnKey, machines.replicate),
                     "name another: local:1, slurm[:...] or ssh:HOST; or measure there, and replicate here");
  }
  return machines.any() && record::is_of_project(spec) ? Status(no_place_of_a_project()) : ok_status();
}

Error no_place_of_a_project() {
  return with_hint(invalid("a project builds and measures by its own commands, here"),
                   "state them with srun or ssh in ridge-project.toml, and leave --measure-on, --build-on, --screen-on "
                   "and --replicate-on out");
}

Machines machines_of(const record::CampaignSpec& spec) {
  return {.build = extra_text(spec, kBuildOnKey),
          .measure = extra_text(spec, kMeasureOnKey),
          .screen = extra_text(spec, kScreenOnKey),
          .replicate = extra_text(spec, kReplicateOnKey)};
}

}  // namespace ridge::campaign
