// manifest.yaml: what the campaign is about, for people to read, edit before CONFIRM, and compare. Keys that the engine
// does not know are kept. The confirmation is bound to the digest of the canonical manifest; representative_shapes is
// the one declared fill-in and does not count.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "record/campaign.h"
#include "ridge/result.h"

namespace ridge::campaign {

// Deterministic; parse_manifest() of the result gives the same spec.
std::string render_manifest(const record::CampaignSpec& spec);
// A real YAML parser. Errors name the key, the value and what is allowed; required keys may not be missing or empty.
Result<record::CampaignSpec> parse_manifest(std::string_view text);

// Everything that must hold before a campaign starts: max_iterations null or 1..119, known modes, distinct target
// shapes of the operator, a protocol whose sequential rule can accept at all.
Status validate_spec(const record::CampaignSpec& spec);

// What this machine cannot run, asked when a manifest is confirmed: more threads than it has processors.
Status check_machine(const record::CampaignSpec& spec);

// SHA-256 of the canonical manifest, without the declared fill-in.
std::string spec_digest(const record::CampaignSpec& spec);
// "target_shapes, max_iterations": which keys differ; empty when nothing that counts does.
std::string differing_keys(const record::CampaignSpec& a, const record::CampaignSpec& b);

// A text as a YAML scalar, and the text of a key that the engine does not know; empty when it is not there or no text.
std::string yaml_text(const std::string& text);
std::string extra_text(const record::CampaignSpec& spec, const std::string& key);
// The same of a list of texts; a single text is a list of one.
std::vector<std::string> extra_texts(const record::CampaignSpec& spec, const std::string& key);

// What the user wants to hold and no gate knows ("no inline PTX"), a sentence each: a key of `extra`, so that it is
// confirmed with the rest and every proposer is told. In a manifest that was written by hand it may also be one text.
inline constexpr const char* kConstraintsKey = "constraints";
Status set_constraints(record::CampaignSpec& spec, const std::vector<std::string>& sentences);
std::vector<std::string> constraints_of(const record::CampaignSpec& spec);

// <op>_<backend>_<gpu>_<date>, lower case, characters safe in a path.
std::string default_campaign_id(const record::CampaignSpec& spec, std::string_view day);

}  // namespace ridge::campaign
