// The choice of a configuration by the cost model, held to the measured times of every configuration on two devices
// (bench/results/*/sweep.csv, made by `gemm_bench sweep`). The constants of the model, those here too, come from
// bench/gpu/fit_model.py.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "ops/matmul/cuda_wgmma_model.h"
#include "ops/matmul/values.h"
#include "places.h"

namespace ridge::cuda {
namespace {

// Constants of the model with the weight of every configuration, in the order of the description.
struct Fit {
  ModelConstants constants;
  std::vector<double> weights;  // empty: those of the description
};
const Fit kShipped;

// Fitted to the H100 alone.
const Fit kFromH100 = {
    {.step_sharpness = 3.794,
     .memory_sharpness = 5.491,
     .drift_scale = 25.73,
     .drift_power = 0.2351,
     .mn_major_step = 0.004066,
     .mn_major_memory = 0.05672,
     .single_wave = 0.02098,
     .start = 836,
     .hidden_end = 143,
     .plain_end = 3792,
     .exchange = 7893},
    {0.7511, 1.1703, 1.1702, 0.8536, 1.0149, 0.9119, 0.9454, 1.1084, 0.8296, 0.6253, 1.5002, 0.9412, 0.9936,
     1.0006, 0.9923, 0.9853, 0.9988, 1.0464, 0.8613, 1.2242, 2.2319, 2.1960, 2.0429, 2.1403, 2.2601}};

// Fitted to the H200 alone.
const Fit kFromH200 = {
    {.step_sharpness = 2.7,
     .memory_sharpness = 4.041,
     .drift_scale = 6.127,
     .drift_power = 0.478,
     .mn_major_step = 0.005234,
     .mn_major_memory = 0.04886,
     .single_wave = 0.02466,
     .start = 767.7,
     .hidden_end = 149.9,
     .plain_end = 1816,
     .exchange = 5403},
    {0.8533, 1.1858, 1.1886, 1.0370, 1.2957, 1.0235, 1.0466, 1.1785, 0.9866, 0.7256, 1.3075, 0.8460, 1.1115,
     1.2271, 1.2798, 1.1492, 1.1963, 1.1547, 1.1017, 1.3371, 0.9951, 1.0860, 1.0000, 0.8929, 1.0319}};

// Fitted to both, without the shapes of held_out().
const Fit kWithoutHeldOut = {
    {.step_sharpness = 1.607,
     .memory_sharpness = 11.91,
     .drift_scale = 7.819,
     .drift_power = 0.09562,
     .mn_major_step = 0.006494,
     .mn_major_memory = 0.03149,
     .single_wave = 0.01892,
     .start = 853.2,
     .hidden_end = 146.1,
     .plain_end = 6111,
     .exchange = 4051},
    {0.6737, 1.2202, 1.2144, 0.8799, 1.1660, 0.9261, 0.9864, 1.1363, 0.8468, 0.7105, 1.1684, 1.7283, 0.9706,
     1.1535, 1.1894, 0.9830, 1.1294, 1.2676, 0.9563, 1.2129, 0.8029, 0.9654, 0.8446, 0.7349, 0.8695}};

struct Measured {
  std::string protocol, layout, types;
  GemmCase g;
  std::map<std::string, double> us;  // by configuration
  double cublaslt_us = 0;            // its best of 24 algorithms
};

GemmCase case_of(const std::string& layout, const std::string& types) {
  GemmCase g;
  g.a_mn_major = layout[0] == 'T';
  g.b_mn_major = layout[1] == 'N';
  if (types.starts_with("e4m3")) {
    g.type_a = g.type_b = GemmType::kE4m3;
    g.scaling = types.find("block") != std::string::npos    ? GemmScaling::kBlock
                : types.find("vector") != std::string::npos ? GemmScaling::kVector
                                                            : GemmScaling::kTensor;
    g.promote = types.find("promote") != std::string::npos;
  }
  g.accumulate = types.ends_with("add");
  if (types.ends_with("f32add")) g.type_c = GemmType::kF32;
  return g;
}

struct Device {
  DeviceFacts facts;
  std::vector<Measured> cases;
};

double number_after(const std::string& text, const std::string& key) {
  const std::size_t at = text.find("\"" + key + "\": ");
  EXPECT_NE(at, std::string::npos) << key;
  return at == std::string::npos ? 0 : std::stod(text.substr(at + key.size() + 4));
}

Device read(const std::string& name) {
  const std::string folder = source_dir().string() + "/bench/results/" + name;
  Device device;
  std::string facts;
  std::getline(std::ifstream(folder + "/facts.json") >> std::ws, facts);
  device.facts = {static_cast<int>(number_after(facts, "multiprocessors")), number_after(facts, "l2_bytes"),
                  number_after(facts, "memory_bandwidth"), number_after(facts, "clock_hz")};
  std::ifstream file(folder + "/sweep.csv");
  std::string line, before;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::vector<std::string> cells;
    std::stringstream row(line);
    for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
    const std::string key = line.substr(0, line.find(cells[6]));
    if (key != before) {
      Measured& fresh =
          device.cases.emplace_back(Measured{cells[0], cells[1], cells[2], case_of(cells[1], cells[2]), {}, 0});
      fresh.g.m = std::stoll(cells[3]);
      fresh.g.n = std::stoll(cells[4]);
      fresh.g.k = std::stoll(cells[5]);
      fresh.cublaslt_us = std::stod(cells[8]);
      before = key;
    }
    device.cases.back().us[cells[6]] = std::stod(cells[7]);
  }
  EXPECT_GT(device.cases.size(), 500u) << folder;
  return device;
}

const Device& h100() {
  static const Device device = read("nvidia-h100-80gb-hbm3");
  return device;
}
const Device& h200() {
  static const Device device = read("nvidia-h200");
  return device;
}

// Layers that took no part in any fit: [tokens, outputs, inputs]; NT as they are, NN and TN as their gradients.
const std::set<std::array<std::int64_t, 3>>& held_out() {
  static const std::set<std::array<std::int64_t, 3>> all = [] {
    std::set<std::array<std::int64_t, 3>> shapes;
    for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{
             {2048, 14336, 4096},  {4096, 14336, 4096}, {2048, 4096, 4096},  {6144, 5120, 5120},  {6144, 13824, 5120},
             {3072, 24576, 3072},  {3072, 3072, 24576}, {12288, 2560, 2560}, {12288, 9728, 2560}, {16384, 1536, 2048},
             {16384, 768, 2048},   {2048, 12288, 6144}, {2048, 6144, 16384}, {16384, 5120, 2048}, {5000, 5000, 5000},
             {4096, 12288, 12288}, {3000, 4096, 1024},  {16384, 2048, 2048}, {6144, 1024, 4096},  {4096, 1280, 8192},
             {4096, 8192, 3584},   {4096, 7168, 2304},  {8192, 3072, 8192},  {64, 5120, 5120},    {64, 13824, 5120},
             {64, 2560, 9728},     {64, 3072, 8192},    {512, 5120, 5120},   {512, 13824, 5120},  {512, 2560, 9728},
             {512, 3072, 8192},    {2048, 5120, 5120},  {2048, 13824, 5120}, {2048, 2560, 9728},  {2048, 3072, 8192},
             {384, 5120, 5120},    {384, 13824, 5120},  {384, 2560, 9728},   {384, 3072, 8192}}) {
      shapes.insert({m, n, k});
      shapes.insert({m, k, n});
      shapes.insert({n, k, m});
    }
    return shapes;
  }();
  return all;
}
bool is_held_out(const Measured& one) { return held_out().contains({one.g.m, one.g.n, one.g.k}); }

// What the choice reaches: time of the best configuration over that of the chosen one.
struct Outcome {
  double mean = 0, worst = 1, over_cublaslt = 0;
  std::string worst_case;
  int cases = 0;
};

std::vector<WgmmaConfig> configs_of(const Fit& fit) {
  std::vector<WgmmaConfig> configs = wgmma_configs();
  for (std::size_t i = 0; i < fit.weights.size(); ++i) configs.at(i).weight = fit.weights[i];
  return configs;
}

std::vector<int> ranked(const GemmCase& g, const std::vector<WgmmaConfig>& configs, const DeviceFacts& device,
                        const ModelConstants& fitted = kModelConstants) {
  record::PlanFacts facts;
  ops::matmul::add_values(g, facts.values);
  return rank_wgmma(g, ops::described_kernel(kWgmmaSource).fitting(facts), configs, device, fitted);
}

template <class Filter>
Outcome outcome(const Device& device, const Fit& fit, const Filter& counts) {
  const std::vector<WgmmaConfig> configs = configs_of(fit);
  Outcome o;
  double logs = 0, peer_logs = 0;
  for (const Measured& one : device.cases) {
    if (!counts(one)) continue;
    double best = 1e300, chosen = 0;
    for (const auto& [name, us] : one.us) best = std::min(best, us);
    for (const int index : ranked(one.g, configs, device.facts, fit.constants)) {
      const auto found = one.us.find(configs[static_cast<std::size_t>(index)].name);
      if (found == one.us.end()) continue;  // it would spill, and is not measured
      chosen = found->second;
      break;
    }
    EXPECT_GT(chosen, 0.0);
    const double reached = best / chosen;
    if (reached < o.worst) {
      o.worst = reached;
      o.worst_case = one.protocol + " " + one.layout + " " + one.types + " " + std::to_string(one.g.m) + "," +
                     std::to_string(one.g.n) + "," + std::to_string(one.g.k);
    }
    logs += std::log(reached);
    peer_logs += std::log(one.cublaslt_us / chosen);
    ++o.cases;
  }
  o.mean = std::exp(logs / o.cases);
  o.over_cublaslt = std::exp(peer_logs / o.cases);
  return o;
}

void expect(const char* what, const Outcome& o, double mean, double worst) {
  std::printf("%-44s %4d cases: %.3f of the best configuration (worst %.3f, %s), %.3f of cuBLASLt's best\n", what,
              o.cases, o.mean, o.worst, o.worst_case.c_str(), o.over_cublaslt);
  EXPECT_GT(o.mean, mean) << what;
  EXPECT_GT(o.worst, worst) << what << ": " << o.worst_case;
}

bool large(const Measured& one) { return one.types == "bf16" && one.g.m >= 1024 && one.g.n >= 1024; }
auto large_of(const char* layout) {
  return [layout](const Measured& one) { return large(one) && one.layout == layout; };
}
auto of_types(const char* types) {
  return [types](const Measured& one) { return one.types == types; };
}

TEST(WgmmaModel, ChoosesWithinTwoPercentOfTheBestOnBothDevices) {
  for (const char* layout : {"NT", "NN", "TN"}) {
    expect((std::string("H100 bf16 ") + layout).c_str(), outcome(h100(), kShipped, large_of(layout)), 0.98, 0.83);
    expect((std::string("H200 bf16 ") + layout).c_str(), outcome(h200(), kShipped, large_of(layout)), 0.985, 0.83);
  }
}

TEST(WgmmaModel, ChoosesAmongTheOtherKindsToo) {
  for (const auto& [types, mean] : std::vector<std::pair<const char*, double>>{{"bf16-f32add", 0.95},
                                                                               {"bf16-bf16add", 0.96},
                                                                               {"e4m3-tensor", 0.98},
                                                                               {"e4m3-tensor-promote", 0.98},
                                                                               {"e4m3-block", 0.98},
                                                                               {"e4m3-vector-f32add", 0.98}}) {
    expect((std::string("H100 ") + types).c_str(), outcome(h100(), kShipped, of_types(types)), mean, 0.82);
    expect((std::string("H200 ") + types).c_str(), outcome(h200(), kShipped, of_types(types)), mean, 0.82);
  }
  const auto few_rows = [](const Measured& one) { return one.types == "bf16" && one.g.m < 1024; };
  expect("H100 bf16, M below 1024", outcome(h100(), kShipped, few_rows), 0.96, 0.75);
  expect("H200 bf16, M below 1024", outcome(h200(), kShipped, few_rows), 0.96, 0.80);
}

// Constants fitted to one device, tried on the other. On the H200 next to nothing waits for memory, so its times alone
// say little of a device that does; those of the H100 say enough for both.
TEST(WgmmaModel, CarriesOverToADeviceThatTookNoPartInTheFit) {
  expect("H200, fitted to the H100 alone", outcome(h200(), kFromH100, large), 0.98, 0.82);
  expect("H100, fitted to the H200 alone", outcome(h100(), kFromH200, large), 0.90, 0.43);
}

TEST(WgmmaModel, CarriesOverToShapesThatTookNoPartInTheFit) {
  const auto fresh = [](const Measured& one) { return large(one) && is_held_out(one); };
  // The worst is 5000,5000,5000: no row of a shape that took part starts beside a line of L2.
  expect("H100, shapes held out", outcome(h100(), kWithoutHeldOut, fresh), 0.97, 0.78);
  expect("H200, shapes held out", outcome(h200(), kWithoutHeldOut, fresh), 0.985, 0.83);
}

// The seconds are for people, who read them in explain(); nothing is decided by them.
TEST(WgmmaModel, EstimatesAreSeconds) {
  for (const Device* device : {&h100(), &h200()}) {
    double logs = 0;
    int cases = 0;
    for (const Measured& one : device->cases) {
      if (!large(one) || one.protocol != "sustained") continue;
      const WgmmaConfig& c =
          wgmma_configs()[static_cast<std::size_t>(ranked(one.g, wgmma_configs(), device->facts)[0])];
      logs += std::log(estimate_seconds(one.g, c, device->facts) * 1e6 / one.us.at(c.name));
      ++cases;
    }
    EXPECT_NEAR(std::exp(logs / cases), 1.0, 0.06);
  }
}

TEST(WgmmaModel, MissingMemoryBandwidthMovesTheChoiceToLargerTiles) {
  GemmCase g;
  g.m = g.n = 8192;
  g.k = 28672;
  const auto area = [&](double bandwidth) {
    DeviceFacts facts;
    facts.memory_bandwidth = bandwidth;
    const WgmmaConfig& c = wgmma_configs()[static_cast<std::size_t>(ranked(g, wgmma_configs(), facts)[0])];
    return c.block_m * c.block_n * c.cluster_m * c.cluster_n;
  };
  EXPECT_GT(area(2e12), area(8e12));
}

}  // namespace
}  // namespace ridge::cuda
