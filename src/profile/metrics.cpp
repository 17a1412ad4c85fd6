#include "profile/metrics.h"

#include <algorithm>

namespace ridge::profile {
namespace {

// One way to a quantity: counter, or numerator over denominator. Several rows of one quantity are tried in turn, which
// is how names of other architectures and versions come in.
struct Source {
  std::string_view tool, quantity, unit, counter, over;
  double scale = 1;
  std::string_view vendor = {};  // whose event of this name it is; empty: everybody's
};
constexpr Source kSources[] = {
    {"ncu", "occupancy_fraction", "1", "sm__warps_active.avg.pct_of_peak_sustained_active", {}},
    {"ncu", "occupancy_fraction", "1", "Achieved Occupancy", {}},
    {"ncu", "occupancy_limit_fraction", "1", "sm__maximum_warps_per_active_cycle_pct", {}},
    {"ncu", "occupancy_limit_fraction", "1", "Theoretical Occupancy", {}},
    {"ncu", "dram_fraction", "1", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", {}},
    {"ncu", "dram_fraction", "1", "dram__throughput.avg.pct_of_peak_sustained_elapsed", {}},
    {"ncu", "dram_fraction", "1", "DRAM Throughput", {}},
    {"ncu", "l2_fraction", "1", "lts__throughput.avg.pct_of_peak_sustained_elapsed", {}},
    {"ncu", "l2_fraction", "1", "L2 Cache Throughput", {}},
    {"ncu", "l1_fraction", "1", "l1tex__throughput.avg.pct_of_peak_sustained_active", {}},
    {"ncu", "l1_fraction", "1", "L1/TEX Cache Throughput", {}},
    {"ncu", "tensor_fraction", "1", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", {}},
    {"ncu", "tensor_fraction", "1", "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active", {}},
    {"ncu", "fma_fraction", "1", "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active", {}},
    {"ncu", "fma_fraction", "1", "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active", {}},
    {"ncu", "issue_fraction", "1", "smsp__issue_active.avg.pct_of_peak_sustained_active", {}},
    {"ncu", "issue_fraction", "1", "Issue Slots Busy", {}},
    {"ncu", "l2_hit_fraction", "1", "lts__t_sector_hit_rate.pct", {}},
    {"ncu", "l2_hit_fraction", "1", "L2 Hit Rate", {}},
    {"ncu", "bank_conflict_fraction", "1", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
     "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"},
    {"ncu", "load_efficiency", "1", "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct", {}},
    {"ncu", "store_efficiency", "1", "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct", {}},
    {"ncu", "local_accesses", "1", "smsp__sass_inst_executed_op_local.sum", {}},
    {"ncu", "waves", "1", "launch__waves_per_multiprocessor", {}},
    {"ncu", "waves", "1", "Waves Per SM", {}},
    {"ncu", "stall_memory", "1", "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", {}},
    {"ncu", "stall_barrier", "1", "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", {}},
    {"ncu", "stall_shared", "1", "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio", {}},
    {"ncu", "stall_pipe", "1", "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio", {}},
    {"ncu", "registers", "1", "launch__registers_per_thread", {}},
    {"ncu", "registers", "1", "Registers Per Thread", {}},
    {"ncu", "dram_bytes", "B", "dram__bytes.sum", {}},

    {"cupti", "registers", "1", "Reg/Trd", {}},
    {"cupti", "shared_bytes", "B", "StcSMem (MB)", {}},

    {"rocprofv3", "occupancy_fraction", "1", "OccupancyPercent", {}, 0.01},
    {"rocprofv3", "tensor_fraction", "1", "MfmaUtil", {}, 0.01},
    {"rocprofv3", "fma_fraction", "1", "VALUBusy", {}, 0.01},
    {"rocprofv3", "l1_fraction", "1", "MemUnitBusy", {}, 0.01},
    {"rocprofv3", "l2_hit_fraction", "1", "L2CacheHit", {}, 0.01},
    {"rocprofv3", "bank_conflict_fraction", "1", "LDSBankConflict", {}, 0.01},
    {"rocprofv3", "bank_conflict_fraction", "1", "SQ_LDS_BANK_CONFLICT", "SQ_LDS_IDX_ACTIVE"},
    {"rocprofv3", "registers", "1", "VGPR_Count", {}},
    {"rocprofv3", "shared_bytes", "B", "LDS_Block_Size", {}},
    {"rocprofv3", "local_accesses", "1", "Scratch_Size", {}},

    {"rocprof-compute", "bank_conflict_fraction", "1", "SQ_LDS_BANK_CONFLICT", "SQ_LDS_IDX_ACTIVE"},
    {"rocprof-compute", "tensor_fraction", "1", "SQ_VALU_MFMA_BUSY_CYCLES", "SQ_BUSY_CU_CYCLES", 0.25},
    {"rocprof-compute", "fma_fraction", "1", "SQ_ACTIVE_INST_VALU", "SQ_BUSY_CU_CYCLES", 1},
    {"rocprof-compute", "l2_hit_fraction", "1", "TCC_HIT_sum", "TCC_REQ_sum"},
    {"rocprof-compute", "registers", "1", "Arch_VGPR", {}},
    {"rocprof-compute", "shared_bytes", "B", "LDS_Per_Workgroup", {}},
    {"rocprof-compute", "local_accesses", "1", "Scratch_Per_Workitem", {}},

    {"perf", "instructions_per_cycle", "1", "instructions", "cycles"},
    {"perf", "retiring_fraction", "1", "topdown-retiring", "slots"},
    {"perf", "front_end_fraction", "1", "topdown-fe-bound", "slots"},
    {"perf", "front_end_fraction", "1", "stalled-cycles-frontend", "cycles"},
    {"perf", "bad_speculation_fraction", "1", "topdown-bad-spec", "slots"},
    {"perf", "back_end_fraction", "1", "topdown-be-bound", "slots"},
    {"perf", "back_end_fraction", "1", "stalled-cycles-backend", "cycles"},
    {"perf", "llc_misses_per_instruction", "1", "LLC-load-misses", "instructions"},
    // The event of one name is another one on every processor: the last level on Intel's, the second on AMD's.
    {"perf", "llc_misses_per_instruction", "1", "cache-misses", "instructions", 1, "Intel"},
    {"perf", "l2_misses_per_instruction", "1", "cache-misses", "instructions", 1, "AMD"},
    {"perf", "memory_stall_fraction", "1", "topdown-mem-bound", "slots"},
    {"perf", "branch_misses_per_instruction", "1", "branch-misses", "instructions"},
};

double counter(const Launch& launch, std::string_view name, bool& there) {
  const auto found = launch.counters.find(std::string(name));
  there = found != launch.counters.end();
  return there ? found->second.value : 0;
}

bool value_of(const Launch& launch, const Source& source, double& value) {
  bool there = false;
  value = counter(launch, source.counter, there) * source.scale;
  if (!there || source.over.empty()) return there;
  const double over = counter(launch, source.over, there);
  if (!there || !(over > 0)) return false;
  value /= over;
  return true;
}

void add(record::ProfileReport& report, std::string_view name, std::string_view unit, std::vector<double> values,
         std::string source) {
  std::sort(values.begin(), values.end());
  record::ProfileMetric& metric = report.metrics.emplace_back();
  metric.name = name;
  metric.unit = unit;
  metric.low = values.front();
  metric.high = values.back();
  metric.median = (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
  metric.launches = static_cast<std::int64_t>(values.size());
  metric.source = std::move(source);
}

bool is_there(const record::ProfileReport& report, std::string_view name) { return metric(report, name).has_value(); }

// Bytes of the outermost memory that AMD's and a processor's counters add up to; negative: not counted.
double counted_bytes(const Capture& capture, const Launch& launch) {
  bool a = false, b = false;
  if (capture.tool == "rocprofv3") {  // KiB
    const double read = counter(launch, "FETCH_SIZE", a), written = counter(launch, "WRITE_SIZE", b);
    return a && b ? 1024 * (read + written) : -1;
  }
  if (capture.tool == "rocprof-compute") {  // requests of 32, 64 and 128 bytes to the memory fabric
    const double read = counter(launch, "TCC_EA0_RDREQ_sum", a), written = counter(launch, "TCC_EA0_WRREQ_sum", b);
    bool c = false, d = false, e = false;
    const double small = counter(launch, "TCC_EA0_RDREQ_32B_sum", c),
                 full = counter(launch, "TCC_EA0_WRREQ_64B_sum", d), wide = counter(launch, "TCC_BUBBLE_sum", e);
    if (!a || !b || !c || !d) return -1;
    return 128 * wide + 64 * (read - wide - small) + 32 * small + 64 * full + 32 * (written - full);
  }
  if (capture.tool == "perf") {  // at least: neither writes nor lines that were prefetched
    const double misses = counter(launch, "LLC-load-misses", a);
    return a ? 64 * misses : -1;
  }
  return -1;
}

void fill_bytes(const Capture& capture, const std::vector<const Launch*>& launches, const Options& options,
                record::ProfileReport& report) {
  std::vector<double> bytes, fractions;
  for (const Launch* launch : launches) {
    const double counted = counted_bytes(capture, *launch);
    if (counted < 0) continue;
    bytes.push_back(counted);
    if (options.bandwidth > 0 && launch->duration > 0)
      fractions.push_back(counted / launch->duration / options.bandwidth);
  }
  if (!bytes.empty()) add(report, "dram_bytes", "B", bytes, "requests to the memory");
  if (!fractions.empty())
    add(report, "dram_fraction", "1", fractions, "requests to the memory over the given bandwidth");
}

}  // namespace

void fill_metrics(const Capture& capture, const std::vector<const Launch*>& launches, const Options& options,
                  record::ProfileReport& report) {
  std::vector<double> durations;
  for (const Launch* launch : launches) {
    if (launch->duration > 0) durations.push_back(launch->duration);
  }
  if (!durations.empty()) add(report, "duration", "s", durations, "as observed; not a timing");
  double busy = 0;
  for (const Launch& launch : capture.launches) busy += launch.duration;
  if (capture.span > 0)
    add(report, "gpu_busy_fraction", "1", {std::min(1.0, busy / capture.span)}, "kernel time over the trace");
  const auto is_ours = [&](const Source& source) {
    return source.tool == capture.tool && (source.vendor.empty() || source.vendor == options.vendor);
  };
  for (const Source& source : kSources) {
    if (!is_ours(source) || is_there(report, source.quantity)) continue;
    std::vector<double> values;
    for (const Launch* launch : launches) {
      double value = 0;
      if (value_of(*launch, source, value)) values.push_back(value);
    }
    if (values.empty()) continue;
    add(report, source.quantity, source.unit, values, std::string(source.counter));
  }
  if (!is_there(report, "dram_bytes")) fill_bytes(capture, launches, options, report);
  for (const Source& source : kSources) {
    const std::string name(source.quantity);
    if (!is_ours(source) || is_there(report, name)) continue;
    if (std::find(report.missing.begin(), report.missing.end(), name) == report.missing.end())
      report.missing.push_back(name);
  }
  if (capture.tool != "cupti" && !is_there(report, "dram_fraction") &&
      std::find(report.missing.begin(), report.missing.end(), "dram_fraction") == report.missing.end())
    report.missing.emplace_back("dram_fraction");
}

}  // namespace ridge::profile
