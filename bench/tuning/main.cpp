// How near to the fastest configuration `ridge tune` comes, by how many it measures: replayed on sweeps, which have
// every configuration of the wgmma kernel on hundreds of shapes (`gemm_bench sweep`).
//
//   bench_tuning bench/results/nvidia-h200 bench/results/nvidia-h100-80gb-hbm3 >
//   bench/results/simulation/tune_choice.csv
//
// Strategies: in the order of the cost model ("order"; without the model that of the source), and by the search: alone,
// with the winners of the shipped tables of other devices ("tables"), with what was measured of all cases on the other
// device ("there"), of the cases before on this one ("here"), and with all of these ("all"). A figure is the geometric
// mean over the cases of the fastest time over that of the fastest one measured.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "dispatch/configuration_search.h"
#include "dispatch/earlier_tuning.h"

namespace {

using namespace ridge;

constexpr std::size_t kMostLooks = 12;
constexpr double kMicrosecond = 1e-6, kNear = 1.02;

using Times = std::map<std::string, double>;  // seconds by name of the configuration
using Order = std::vector<int>;               // the configurations as a strategy looks at them

struct Subject {
  const ops::Operator* op;
  ops::Problem problem;
  Times times;
};

struct Sweep {
  ops::DeviceInfo device;
  std::map<std::string, std::vector<Subject>> subjects;  // by protocol
};

// A row "sustained,NT,bf16-f32add,4096,6144,4096,..." as a case.
std::string case_of(const std::vector<std::string>& row) {
  const std::string& types = row[2];
  std::string layout = row[1];
  std::ranges::transform(layout, layout.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string sizes = fmt::format("m={} n={} k={} layout={}", row[3], row[4], row[5], layout);
  if (types == "e4m3-tensor") return "gemm_fp8 " + sizes + " scaling=tensor sums=fast";
  if (types == "e4m3-tensor-promote") return "gemm_fp8 " + sizes + " scaling=tensor sums=promoted";
  const std::string added = types == "bf16-f32add"    ? " out=f32 accumulate=1"
                            : types == "bf16-bf16add" ? " accumulate=1"
                                                      : "";
  return "gemm " + sizes + " dtype=bf16" + added;
}

Result<Sweep> read_sweep(const std::string& folder) {
  Sweep sweep;
  std::ifstream facts_file(folder + "/facts.json");
  const auto facts = nlohmann::json::parse(facts_file);
  sweep.device = {Backend::kCuda,
                  facts["name"],
                  "sm_90a",
                  {"sm_90a", "wgmma", "tma"},
                  "",
                  "",
                  facts["multiprocessors"],
                  facts["l2_bytes"],
                  facts["memory_bandwidth"],
                  facts["clock_hz"]};
  std::ifstream file(folder + "/sweep.csv");
  std::map<std::string, std::map<std::string, Times>> times;  // by protocol and case
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    const std::vector<std::string> row = split(line, ',');
    // Block scales: few configurations take them.
    if (row[2] == "e4m3-block" || row[2] == "e4m3-vector-f32add") continue;
    times[row[0]][case_of(row)][row[6]] = kMicrosecond * std::stod(row[7]);
  }
  for (auto& [protocol, cases] : times) {
    for (auto& [words, of_case] : cases) {
      RIDGE_TRY(asked, record::parse_case(words));
      RIDGE_TRY(op, ops::find_operator(asked.op));
      RIDGE_TRY(problem, op->bind(asked));
      sweep.subjects[protocol].push_back({op, std::move(problem), std::move(of_case)});
    }
  }
  return sweep;
}

// The wgmma kernel as the library has it, or as if nothing had been fitted to a device.
ops::Implementation kernel_of(const ops::Operator& op, bool with_model) {
  ops::Implementation own = **ops::find_implementation(op, op.name == "gemm" ? "cuda_wgmma" : "cuda_wgmma_fp8");
  if (with_model) return own;
  own.promising = [promising = own.promising](const ops::Problem& problem, const ops::DeviceInfo& device) {
    std::vector<int> fitting = promising(problem, device);
    std::ranges::sort(fitting);
    return fitting;
  };
  own.expected_seconds = nullptr;
  return own;
}

struct Setting {
  const Sweep& sweep;
  const std::vector<Sweep>& all;
  std::string protocol, strategy;
  bool model;
};

double time_of(const ops::Implementation& kernel, const Times& times, int configuration) {
  return times.at(kernel.configurations[static_cast<std::size_t>(configuration)]);
}

void keep(dispatch::EarlierTuning& earlier, const ops::Implementation& kernel, const Subject& subject,
          const std::string& device, const Order& order) {
  std::vector<record::StoredMeasurement> all;
  for (const int one : order) {
    record::StoredMeasurement& looked = all.emplace_back();
    looked.device = device;
    looked.problem = subject.problem.problem_case.label();
    looked.configuration = dispatch::values_of(kernel, one);
    looked.seconds = time_of(kernel, subject.times, one);
  }
  earlier.add(kernel, all);
}

Order fitting_of(const ops::Implementation& kernel, const Subject& subject, const ops::DeviceInfo& device) {
  Order fitting = kernel.promising(subject.problem, device);
  std::erase_if(fitting,
                [&](int one) { return !subject.times.contains(kernel.configurations[static_cast<std::size_t>(one)]); });
  return fitting;
}

// As dispatch::Tuner goes on: its own choice first.
Order searched(const ops::Implementation& kernel, const Subject& subject, const ops::DeviceInfo& device,
               const Order& fitting, std::vector<search::PastSource> past) {
  dispatch::ConfigurationSearch search(kernel, subject.problem, device, fitting, std::move(past), 1);
  Order order;
  const auto look = [&](int one) {
    order.push_back(one);
    search.observe(one, time_of(kernel, subject.times, one));
  };
  look(fitting[0]);
  while (order.size() < kMostLooks) {
    const auto next = search.propose();
    if (!next) break;
    look(*next);
  }
  return order;
}

class Replay {
 public:
  explicit Replay(const Setting& setting) : s_(setting) {}

  void run() {
    const auto& subjects = s_.sweep.subjects.at(s_.protocol);
    for (const Subject& subject : subjects) {
      const ops::Implementation kernel = kernel_of(*subject.op, s_.model);
      dispatch::EarlierTuning& earlier = earlier_of(subject, kernel);
      Order order = fitting_of(kernel, subject, s_.sweep.device);
      if (s_.strategy != "order") {
        auto past = s_.strategy == "alone" ? std::vector<search::PastSource>()
                                           : earlier.sources(kernel, subject.problem, s_.sweep.device);
        order = searched(kernel, subject, s_.sweep.device, order, std::move(past));
      }
      order.resize(std::min(order.size(), kMostLooks));
      const bool ended =
          order.size() < kMostLooks && order.size() < fitting_of(kernel, subject, s_.sweep.device).size();
      count(kernel, subject.times, order, ended);
      if (s_.strategy == "here" || s_.strategy == "all") keep(earlier, kernel, subject, s_.sweep.device.name, order);
    }
    const auto cases = static_cast<double>(subjects.size());
    fmt::print("{},{},{},{},{},{:.1f},{},{}", s_.sweep.device.name, s_.protocol, s_.model ? "yes" : "no", s_.strategy,
               subjects.size(), looks_ / cases, ended_, ended_near_);
    for (const double loss : loss_) fmt::print(",{:.4f}", std::exp(-loss / cases));
    fmt::print("\n");
  }

 private:
  dispatch::EarlierTuning& earlier_of(const Subject& subject, const ops::Implementation& kernel) {
    const auto [found, is_new] = earlier_.try_emplace(subject.op->name, *subject.op, "", tables());
    if (!is_new || (s_.strategy != "there" && s_.strategy != "all")) return found->second;
    for (const Sweep& other : s_.all) {
      if (&other == &s_.sweep) continue;
      for (const Subject& one : other.subjects.at(s_.protocol)) {
        if (one.op == subject.op)
          keep(found->second, kernel, one, other.device.name, fitting_of(kernel, one, other.device));
      }
    }
    return found->second;
  }

  // Without the lines of the device itself.
  [[nodiscard]] dispatch::TunedTable tables() const {
    dispatch::TunedTable others;
    if (s_.strategy != "tables" && s_.strategy != "all") return others;
    for (const auto& [key, line] : dispatch::shipped_table().choices()) {
      if (line.device != s_.sweep.device.name) others.add(line);
    }
    return others;
  }

  void count(const ops::Implementation& kernel, const Times& times, const Order& order, bool ended) {
    const double fastest = std::ranges::min_element(times, {}, &Times::value_type::second)->second;
    double found = HUGE_VAL;
    for (std::size_t i = 0; i < kMostLooks; ++i) {
      if (i < order.size()) found = std::min(found, time_of(kernel, times, order[i]));
      loss_[i] += std::log(found / fastest);
    }
    looks_ += static_cast<double>(order.size());
    if (ended) ++ended_;
    if (ended && found <= kNear * fastest) ++ended_near_;
  }

  const Setting& s_;
  std::map<std::string, dispatch::EarlierTuning> earlier_;  // by operator
  std::vector<double> loss_ = std::vector<double>(kMostLooks, 0.0);
  double looks_ = 0;
  std::size_t ended_ = 0, ended_near_ = 0;  // before it had looked at all it may; and within 2 % of the fastest then
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<Sweep> sweeps;
  for (int i = 1; i < argc; ++i) {
    auto sweep = read_sweep(argv[i]);
    if (!sweep) {
      fmt::print(stderr, "{}: {}\n", argv[i], sweep.error().text());
      return 1;
    }
    sweeps.push_back(std::move(*sweep));
  }
  fmt::print("device,protocol,cost_model,strategy,cases,looks,ended,ended_within_2_percent");
  for (std::size_t looks = 1; looks <= kMostLooks; ++looks) fmt::print(",after_{}", looks);
  fmt::print("\n");
  for (const Sweep& sweep : sweeps) {
    for (const auto& [protocol, subjects] : sweep.subjects) {
      for (const bool model : {true, false}) {
        for (const char* strategy : {"order", "alone", "tables", "there", "here", "all"}) {
          Replay(Setting{sweep, sweeps, protocol, strategy, model}).run();
        }
      }
    }
  }
  return 0;
}
