// BASELINE, the pure part: one evaluation of the baseline against itself out of the worker's answers.
#pragma once

#include <vector>

#include "record/journal.h"

namespace ridge::campaign {

// Three to five shapes that stand for all: smallest, middle and largest by work, then the noisiest.
std::vector<std::string> representative_shapes(const std::vector<record::RooflinePoint>& points,
                                               const std::vector<double>& noise_by_shape);

// Why a campaign cannot start from this baseline (it is wrong, too noisy, or has no bound); empty: it can.
std::string baseline_problem(const record::CampaignSpec& spec, const record::Evaluation& evaluation);

}  // namespace ridge::campaign
