// Names of machines, languages, metrics and branches as a manifest writes them.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "campaign/state.h"

namespace ridge::campaign {

// "Intel(R) Xeon(R) Processor @ 2.1GHz" is intel-xeon: what a manifest calls a device.
std::string short_machine_name(std::string_view model);

// Why kernels of this language cannot be for this backend; empty: they can.
std::string language_problem(std::string_view backend, std::string_view language);

// Why a primary metric cannot be computed from a CSV header; empty: it can.
std::string metric_problem(std::string_view metric, std::string_view header);

// Why the campaign's name is not <op>_<backend>_<device>_<date>; empty: it is.
std::string id_problem(const record::CampaignSpec& spec);

// optimize/<id>, or the branch that the manifest names; empty when it asks for none.
std::string branch_name(const record::CampaignSpec& spec);

// Why git_branch cannot be the name of a branch; empty: it can, or it is auto or none.
std::string branch_problem(const record::CampaignSpec& spec);

// Among the frozen digests, of a campaign of a project that began with it: its ridge-project.toml.
inline constexpr const char* kProjectDigest = "project";

// What may not change once the environment is prepared, each by its digest.
std::map<std::string, std::string> frozen_digests(const State& state);

}  // namespace ridge::campaign
