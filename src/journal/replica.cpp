#include "journal/replica.h"

#include <fmt/format.h>

#include <algorithm>

#include "record/backend.h"

namespace ridge::journal {
namespace {

constexpr std::size_t kMostNamed = 3;  // shapes in a sentence

std::string difference(const record::Effect& here, const record::Effect& there) {
  if (here.low > 1 && there.ratio < 1) return "a loss there, a gain here";
  if (there.low > here.high) return "more there";
  if (there.high < here.low) return "less there";
  return {};
}

}  // namespace

Device device_of(const record::Environment& environment, std::string_view backend, const std::string& host) {
  const record::BackendInfo& info = record::backend_of_name(backend);
  Device device{environment.fact("node.host"), environment.fact(info.device), {}, {}};
  if (device.host.empty()) device.host = host;
  if (info.host) return device;
  device.uuid = environment.fact(std::string(info.facts) + "uuid");
  device.driver = environment.fact("node.driver");
  if (device.driver.empty()) device.driver = environment.fact(std::string(info.facts) + "driver_version");
  return device;
}

std::string device_text(const Device& device) {
  std::string text = device.name.empty() ? std::string("a device without a name") : device.name;
  if (!device.host.empty()) text += fmt::format(" of host {}", device.host);
  if (!device.driver.empty()) text += fmt::format(" (driver {})", device.driver);
  return text;
}

Kinship kinship(const Device& a, const Device& b) {
  if (a.name != b.name) return Kinship::kOther;
  const bool by_uuid = !a.uuid.empty() && !b.uuid.empty();
  const bool same = by_uuid ? a.uuid == b.uuid : a.host == b.host;
  return same ? Kinship::kSame : Kinship::kSameKind;
}

std::string_view kinship_words(Kinship kinship) {
  switch (kinship) {
    case Kinship::kSame: return "the same device";
    case Kinship::kSameKind: return "another device of the same kind";
    case Kinship::kOther: break;
  }
  return "another device";
}

std::vector<record::ReplicaRow> compare_effects(const std::vector<record::Effect>& here,
                                                const std::vector<record::Effect>& there) {
  std::vector<record::ReplicaRow> rows;
  for (const record::Effect& one : here) {
    const auto other = std::ranges::find(there, one.label, &record::Effect::label);
    if (other != there.end()) rows.push_back({one.label, one, *other, difference(one, *other)});
  }
  return rows;
}

std::string agreement_words(const std::vector<record::ReplicaRow>& rows) {
  std::size_t shapes = 0;
  std::vector<std::string> named;
  for (const record::ReplicaRow& row : rows) {
    if (row.label == "suite") continue;
    ++shapes;
    if (!row.differs.empty()) named.push_back(fmt::format("{} ({})", row.label, row.differs));
  }
  if (shapes == 0) return "no shape was measured on both";
  if (named.empty())
    return shapes == 1 ? "it agrees on the one shape" : fmt::format("it agrees on all {} shapes", shapes);
  const std::size_t differing = named.size();
  std::string text = fmt::format("it differs on {} of {} shapes: ", differing, shapes);
  named.resize(std::min(differing, kMostNamed));
  text += fmt::format("{}", fmt::join(named, ", "));
  return differing > kMostNamed ? text + fmt::format(" and {} more", differing - kMostNamed) : text;
}

}  // namespace ridge::journal
