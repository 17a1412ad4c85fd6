// The draft of a campaign: what it is about, where its kernel is from, what its targets rest on. Nothing is measured of
// the kernel yet; confirm_draft (campaigns.h) accepts it, and run_campaign works.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "campaign/machines.h"
#include "record/campaign.h"
#include "ridge/result.h"
#include "service/campaign_run.h"

namespace ridge::service {

struct DraftRequest {
  std::string op;                           // or a shipped kernel: gemm_bf16
  std::string backend = "cpu";              // or cuda, the first GPU
  std::vector<std::string> words;           // shapes; empty: the operator's own
  std::string kernel;                       // file to start from; empty: the shipped plain one
  std::vector<std::string> defines;         // NAME=VALUE of its tunables
  std::string project, mode, workspace;     // instead of an operator: a project's folder, or a workspace's
  std::string directory;                    // empty: campaigns/<id>
  std::string proposer = "search", budget;  // "5m"; empty: none
  std::optional<std::int64_t> max_iterations, seed;
  std::string target, metric;  // "forward_tflops >= 0.15 TFLOPS on all"; of a project's table
  double efficiency = 0.9, min_effect = 0.01, max_foreign_load = 0.1, max_steal = 0.05;
  std::int64_t threads = 1, planned = record::Protocol{}.max_decisions;
  std::string branch, timestamp_command;
  campaign::Machines machines;  // where to build, look and measure, and compare once more at the end
  std::vector<std::string> constraints;
  bool no_git = false;
  RunRequest run;
};

struct Draft {
  std::filesystem::path directory;
  record::CampaignSpec spec;
};

// Errors: an operator, shape, kernel, target or proposer that cannot be used; kUnsupported without the device;
// kConflict when the folder holds a campaign.
Result<Draft> draft_campaign(const Context& context, DraftRequest request);

}  // namespace ridge::service
