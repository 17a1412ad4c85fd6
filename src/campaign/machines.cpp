#include "campaign/machines.h"

#include "base/error.h"
#include "campaign/manifest.h"
#include "execute/make_executor.h"
#include "record/execution.h"

namespace ridge::campaign {

bool Machines::elsewhere() const { return !execute::is_default(measure) || !execute::is_default(build); }

Status set_machines(record::CampaignSpec& spec, const Machines& machines) {
  for (const auto& [key, place] : {std::pair(kBuildOnKey, &machines.build), {kMeasureOnKey, &machines.measure}}) {
    if (place->empty()) continue;
    if (const Status known = execute::check_executor(*place); !known) return in_context(key, known.error());
    if (!execute::is_default(*place)) spec.extra[key] = yaml_text(*place);
  }
  return machines.elsewhere() && record::is_of_project(spec) ? Status(no_place_of_a_project()) : ok_status();
}

Error no_place_of_a_project() {
  return with_hint(invalid("a project builds and measures by its own commands, here"),
                   "state them with srun or ssh in ridge-project.toml, and leave --measure-on and --build-on out");
}

Machines machines_of(const record::CampaignSpec& spec) {
  return {extra_text(spec, kBuildOnKey), extra_text(spec, kMeasureOnKey)};
}

}  // namespace ridge::campaign
