#include "record/iteration_file.h"

#include <algorithm>
#include <cctype>

#include "record/archive.h"
#include "record/schema.h"

namespace ridge::record {
namespace {

const Json& strict_schema() {
  static const Json* const kSchema = new Json(schema::of<Iteration>());
  return *kSchema;
}

std::string in_case(std::string text, int (*change)(int)) {
  std::ranges::transform(text, text.begin(), [&](unsigned char c) { return static_cast<char>(change(c)); });
  return text;
}

Json* member(Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool holds_any(const std::string& name, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const char* part) { return name.find(part) != std::string::npos; });
}

// "tflops_peak_utilization_pct": 43 is compute_utilisation 0.43, where that is not said itself.
void take_percentages(Json& performance) {
  const Json given = performance;
  for (const auto& item : given.items()) {
    const std::string& name = item.key();
    if (!name.ends_with("utilization_pct") && !name.ends_with("utilisation_pct")) continue;
    const bool memory = holds_any(name, {"bandwidth", "memory", "dram"});
    if (!item.value().is_number() || (!memory && !holds_any(name, {"tflops", "compute", "sm_"}))) continue;
    const char* const ours = memory ? "memory_utilisation" : "compute_utilisation";
    if (member(performance, ours) == nullptr) performance[ours] = item.value().get<double>() / 100;
  }
  const Json* geomean = member(performance, "latency_us_geomean");
  if (geomean != nullptr && geomean->is_number() && member(performance, "latency_us") == nullptr)
    performance["latency_us"] = *geomean;
}

// "compute_bound" is compute; what is none of ours is unknown.
void take_bottleneck(Json& evidence) {
  Json* type = member(evidence, "bottleneck_type");
  if (type == nullptr || !type->is_string()) return;
  std::string name = in_case(type->get<std::string>(), std::tolower);
  for (const char* const end : {"_bound", "-bound", " bound"}) {
    if (name.ends_with(end)) name.resize(name.size() - std::string_view(end).size());
  }
  if (name == "bandwidth") name = "memory";
  *type = value_of<Bottleneck>(name) ? name : std::string(name_of(Bottleneck::kUnknown));
}

// "pass" is PASS; of UNKNOWN nothing was measured.
void take_status(Json& holder, const char* key) {
  Json* status = member(holder, key);
  if (status == nullptr || !status->is_string()) return;
  const std::string name = in_case(status->get<std::string>(), std::toupper);
  *status = name == "UNKNOWN" ? std::string(name_of(IterationStatus::kNotMeasured)) : name;
}

void translate(Json& root) {
  if (Json* performance = member(root, "performance"); performance != nullptr && performance->is_object())
    take_percentages(*performance);
  if (Json* evidence = member(root, "profile_evidence")) take_bottleneck(*evidence);
  if (Json* gate = member(root, "quality_gate")) take_status(*gate, "result");
  if (Json* correctness = member(root, "correctness"); correctness != nullptr && correctness->is_object()) {
    take_status(*correctness, "status");
    const Json* error = member(*correctness, "max_rel_err");
    if (error != nullptr && error->is_number() && member(*correctness, "rel_err") == nullptr)
      (*correctness)["rel_err"] = *error;
  }
  if (Json* hash = member(root, "git_commit_hash"); hash != nullptr && hash->is_number_integer()) *hash = hash->dump();
  if (Json* open = member(root, "open_directions"); open != nullptr && open->is_array()) {
    for (Json& one : *open) {
      if (one.is_string()) one = Json{{"direction", one}, {"rationale", ""}};
    }
  }
}

// Leaves what the strict reader knows: other keys and nulls go, texts and objects that are missing are empty.
void prune(Json& json, const Json& schema) {
  if (json.is_array() && schema.contains("items")) {
    std::erase_if(json.get_ref<Json::array_t&>(), [](const Json& one) { return one.is_null(); });
    for (Json& one : json) prune(one, schema["items"]);
    return;
  }
  if (!json.is_object()) return;
  const bool fields = schema.contains("properties");
  Json kept = Json::object();
  for (auto& item : json.items()) {
    if (item.value().is_null() || (fields && !schema["properties"].contains(item.key()))) continue;
    prune(item.value(), fields ? schema["properties"][item.key()] : schema.value("additionalProperties", Json()));
    kept[item.key()] = std::move(item.value());
  }
  for (const Json& key : schema.value("required", Json::array())) {
    const std::string name = key.get<std::string>();
    const std::string type = schema["properties"][name].value("type", "");
    if (kept.contains(name)) continue;
    if (type == "string") kept[name] = "";
    if (type == "boolean") kept[name] = false;
    if (type == "object") prune(kept[name] = Json::object(), schema["properties"][name]);
  }
  json = std::move(kept);
}

// Progress towards a target of which one of the two numbers is missing says nothing.
void drop_unmeasured(Json& root) {
  Json* progress = member(root, "isa_metric_progress");
  if (progress == nullptr || !progress->is_array()) return;
  std::erase_if(progress->get_ref<Json::array_t&>(), [](const Json& one) {
    return one.is_object() && (!one.contains("target") || !one.contains("current"));
  });
}

// Puts back what `original` holds and the reader does not take; a key that it did take (`known`, the same as it was
// read) and that is gone was taken out, and so was one of the map of shapes.
void add_unread(Json& json, const Json& original, const Json& known) {
  if (json.is_array() && original.is_array() && json.size() == original.size() && known.size() == original.size()) {
    for (std::size_t i = 0; i < json.size(); ++i) add_unread(json[i], original[i], known[i]);
  }
  if (!json.is_object() || !original.is_object()) return;
  for (const auto& item : original.items()) {
    const std::string& key = item.key();
    if (key == "latency_us_by_shape") continue;
    const bool read = known.is_object() && known.contains(key);
    if (json.contains(key)) {
      if (read) add_unread(json[key], item.value(), known[key]);
    } else if (!read) {
      json[key] = item.value();
    }
  }
}

// What the reader makes up for may be missing, null or more.
void loosen(Json& schema) {
  if (schema.contains("properties")) {
    schema["additionalProperties"] = true;
    schema.erase("required");
    for (auto& item : schema["properties"].items()) loosen(item.value());
  } else if (schema.contains("additionalProperties")) {
    loosen(schema["additionalProperties"]);
  }
  if (schema.contains("items")) loosen(schema["items"]);
  if (schema.contains("enum")) schema.erase("enum"), schema["type"] = "string";
  if (schema.contains("type")) schema["type"] = Json::array({schema["type"], "null"});
}

}  // namespace

Result<Iteration> read_iteration(std::string_view text, const std::string& place) {
  RIDGE_TRY(root, parse_json(text));
  if (!root.is_object()) return archive::type_error(place, "an object", root);
  if (member(root, "version") == nullptr)
    return Error{ErrorCode::kCorrupt, fmt::format("{}: key \"version\" is missing", place), {}};
  translate(root);
  prune(root, strict_schema());
  drop_unmeasured(root);
  return from_json<Iteration>(root, place);
}

std::string iteration_text(const Iteration& iteration, std::string_view original) {
  Json json = to_json(iteration);
  const Result<Json> before = parse_json(original);
  const Result<Iteration> known = read_iteration(original, iteration.version);
  if (!original.empty() && before && known) add_unread(json, *before, to_json(*known));
  return pretty_json(json);
}

std::string iteration_schema() {
  Json json = schema_of<Iteration>("iteration");
  const Json statuses = json["properties"]["quality_gate"]["properties"]["result"]["enum"];
  loosen(json);
  json["type"] = "object";
  json["required"] = Json::array({"version", "correctness", "quality_gate"});
  json["properties"]["version"] = Json{{"type", "string"}, {"pattern", "^v(0|[1-9][0-9]*)$"}};
  json["properties"]["git_commit_hash"]["type"] = Json::array({"string", "integer", "null"});
  for (const auto& [holder, key] : {std::pair("correctness", "status"), {"quality_gate", "result"}}) {
    Json verdict = Json{{"enum", statuses}};
    verdict["enum"].push_back("UNKNOWN");
    json["properties"][holder]["type"] = "object";
    json["properties"][holder]["properties"][key] = verdict;
    json["properties"][holder]["required"] = Json::array({key});
  }
  return pretty_json(json);
}

}  // namespace ridge::record
