// A campaign on a GPU that is not there: the shipped start, and a scripted worker whose kernels are as fast as their
// tile is large.
#pragma once

#include "places.h"
#include "world.h"

namespace ridge::campaign::test {

inline const std::vector<std::string> kGpuShapes = {"m=1024 n=4096 k=4096 dtype=bf16 layout=nt",
                                                    "m=2048 n=4096 k=4096 dtype=bf16 layout=nt"};

inline record::CampaignSpec gpu_spec() {
  record::CampaignSpec spec = make_spec();
  spec.id = "gemm_cuda_nvidia-h200_20260101";
  spec.backend = "cuda";
  spec.language = "cuda";
  spec.gpu = "nvidia-h200";
  spec.proposer = "search";
  spec.target_cases.clear();
  for (const std::string& shape : kGpuShapes) spec.target_cases.push_back(*record::parse_case("gemm " + shape));
  spec.max_iterations = 6;
  return spec;
}

// As `ridge optimize gemm_bf16 --on cuda` reads it: the start, and the library's kernel that it includes.
inline record::Candidate shipped() {
  record::Candidate candidate;
  candidate.op = "gemm";
  candidate.backend = "cuda";
  candidate.name = "gemm_bf16_wgmma";
  const std::filesystem::path root = source_dir();
  candidate.sources = {
      {"gemm_bf16_wgmma.cu", *read_file(root / "data/candidates/gemm_bf16_wgmma.cu")},
      {"ops/matmul/cuda_wgmma.cu", record::as_candidate_text(*read_file(root / "src/ops/matmul/cuda_wgmma.cu"))}};
  return candidate;
}

// Wide tiles are fast, a cluster gains a little, and everything else does nothing.
inline record::Candidate as_speed(const record::Candidate& candidate) {
  const auto value = [&](const char* name, std::int64_t otherwise) {
    const auto found = candidate.defines.find(name);
    return found == candidate.defines.end() ? otherwise : found->second;
  };
  const std::int64_t area = value("RIDGE_BLOCK_M", 128) * value("RIDGE_BLOCK_N", 128);
  return make_candidate(100 + area / 1024 + 3 * (value("RIDGE_CLUSTER_M", 1) - 1));
}

// The answer of the scripted worker of world.h about kernels of that speed, in the name of these candidates.
inline record::WorkerResponse evaluate_gpu(const record::WorkerRequest& request) {
  record::WorkerRequest asked = request;
  asked.incumbent = as_speed(*request.incumbent);
  asked.candidates = {as_speed(request.candidates.front())};
  // Candidates of one speed are still two measurements.
  record::WorkerResponse response = evaluate_on(asked, request.incumbent->id() + request.candidates.front().id());
  response.evaluation->incumbent = request.incumbent->id();
  response.evaluation->candidate = request.candidates.front().id();
  response.evaluation->build = make_build(request.candidates.front());
  response.evaluation->incumbent_artifact = make_build(*request.incumbent).artifact;
  response.evaluation->build.counts = {{"registers", 168}, {"spill_bytes", 0}};
  for (record::RooflinePoint& point : response.evaluation->roofline) {
    point.bound_time *= 5;  // the baseline reaches half of its bound
    point.fraction *= 5;
  }
  return response;
}

inline record::WorkerResponse screen_gpu(const record::WorkerRequest& request) {
  record::WorkerResponse response;
  for (const record::Candidate& candidate : looked_at(request)) {
    record::ScreenRow row;
    row.candidate = candidate.id();
    row.defines = candidate.defines;
    row.score = static_cast<double>(as_speed(candidate).defines.at("SPEED")) / 1000;
    response.screen.push_back(row);
  }
  return response;
}

inline record::WorkerResponse calibrate_gpu(const record::WorkerRequest& request) {
  record::WorkerRequest asked = request;
  asked.incumbent = as_speed(*request.incumbent);
  return calibrate(asked);
}

// What a worker on an H200 says.
inline record::WorkerResponse describe_gpu() {
  record::WorkerResponse described;
  described.environment = record::Environment{{{"gpu.name", "NVIDIA H200"}, {"gpu.multiprocessors", "132"}}};
  return described;
}
inline record::WorkerResponse ceilings_gpu(const record::WorkerRequest&) {
  record::WorkerResponse response;
  response.ceilings = {{"fma_bf16", "FLOP/s", 1, 1e15, {1e15}, "not measured"},
                       {"read_bandwidth", "B/s", 1, 4.8e12, {4.8e12}, "not measured"}};
  return response;
}
inline void script_gpu(execute::ScriptedExecutor& executor) {
  using record::WorkerTask;
  script(executor);
  executor.on(WorkerTask::kDescribe, describe_gpu());
  executor.on(WorkerTask::kCeilings, ceilings_gpu);
  executor.on(WorkerTask::kCalibrate, calibrate_gpu);
  executor.on(WorkerTask::kEvaluate, evaluate_gpu);
  executor.on(WorkerTask::kScreen, screen_gpu);
  executor.on(WorkerTask::kBench, [](const record::WorkerRequest&) { return record::WorkerResponse{}; });
}

}  // namespace ridge::campaign::test
