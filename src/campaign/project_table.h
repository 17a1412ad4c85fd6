// What the manifest of a project's campaign says of the table of its benchmark: the metrics that it can be judged by,
// and how far its signal-to-noise ratios may fall. Written by `ridge optimize --project` from what the benchmark
// printed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "campaign/state.h"
#include "record/campaign.h"
#include "record/metric.h"

namespace ridge::campaign {

// Keys of the manifest.
inline constexpr const char* kTableColumns = "benchmark_columns";  // those that hold numbers, as in the header
inline constexpr const char* kTableMetrics = "benchmark_metrics";  // those that its columns give
inline constexpr const char* kSnrFloor = "min_snr_db";
inline constexpr const char* kSnrMargin = "snr_margin_db";

// Writes the keys; 0 dB: what a campaign does without.
void describe_table(record::CampaignSpec& spec, const std::vector<std::string>& columns,
                    const std::vector<std::string>& metrics, double min_snr_db, double snr_margin_db);

// Why a campaign cannot be judged by its primary_metric, with what it can be judged by; empty: it can.
std::string primary_metric_problem(const record::CampaignSpec& spec);

// Whether the table gives a metric that is no column of its own.
bool gives_metric(const record::CampaignSpec& spec, const std::string& name);

// What a project's campaign is judged by; nothing for an operator of Ridgeline, and for campaigns that began before a
// project could be judged by anything but the forward pass.
std::optional<record::Metric> project_metric(const record::CampaignSpec& spec);

struct NoiseLimits {
  static constexpr double kMargin = 6.0;  // twice the error, as far as an operator of Ridgeline may go
  double floor = 0.0, margin = kMargin;   // dB
  std::vector<SignalToNoise> baseline;    // empty: the table has no such columns
};
NoiseLimits noise_limits(const State& state);
// The floor that the manifest names, in dB; 0: none.
double noise_floor(const record::CampaignSpec& spec);

}  // namespace ridge::campaign
