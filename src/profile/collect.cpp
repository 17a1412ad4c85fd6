// Runs profilers, and ncu to open its own report files.
#include <cstdlib>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "base/process.h"
#include "profile/profile.h"

namespace fs = std::filesystem;

namespace ridge::profile {
namespace {

constexpr std::size_t kLongestReport = 256u << 20;
// What the classifier reads, by the names of sm_80 and later.
constexpr const char* kNcuMetrics =
    "gpu__time_duration.sum,sm__warps_active.avg.pct_of_peak_sustained_active,sm__maximum_warps_per_active_cycle_pct,"
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed,lts__throughput.avg.pct_of_peak_sustained_elapsed,"
    "l1tex__throughput.avg.pct_of_peak_sustained_active,sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active,"
    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active,"
    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active,"
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active,"
    "dram__throughput.avg.pct_of_peak_sustained_elapsed,smsp__issue_active.avg.pct_of_peak_sustained_active,"
    "lts__t_sector_hit_rate.pct,l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum,"
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum,smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct,"
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct,smsp__sass_inst_executed_op_local.sum,"
    "launch__waves_per_multiprocessor,launch__registers_per_thread,dram__bytes.sum,"
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio,"
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio,"
    "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio,"
    "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio";

struct Tool {
  std::string_view name, program, get;
};
constexpr Tool kTools[] = {
    {"ncu", "ncu", "install Nsight Compute (it comes with the CUDA toolkit) and put ncu on the path"},
    {"cupti", "nsys", "install Nsight Systems (it comes with the CUDA toolkit) and put nsys on the path"},
    {"rocprofv3", "rocprofv3", "install rocprofiler-sdk (it comes with ROCm) and put rocprofv3 on the path"},
    {"perf", "perf", "install linux-perf"},
};

Result<std::string> program_of(std::string_view tool) {
  for (const Tool& one : kTools) {
    if (one.name != tool) continue;
    std::string found = find_program(one.program);
    std::error_code ignored;
    const std::string beside = "/usr/local/cuda/bin/" + std::string(one.program);
    if (found.empty() && fs::exists(beside, ignored)) found = beside;
    if (!found.empty()) return found;
    return with_hint(make_error(ErrorCode::kUnsupported, "{} is not on this machine", one.program),
                     std::string(one.get));
  }
  return with_hint(invalid("no profiler \"{}\" runs programs here", tool),
                   "ncu, cupti, rocprofv3 and perf do; a report of rocprof-compute is read with --from");
}

Result<std::string> run(std::vector<std::string> argv, const Options& options) {
  ProcessSpec spec;
  spec.argv = std::move(argv);
  spec.output_limit_bytes = kLongestReport;
  spec.timeout = options.timeout;
  spec.should_stop = options.should_stop;
  spec.every_descendant = true;
  RIDGE_TRY(result, run_process(spec));
  if (result.succeeded()) return result.output;
  return make_error(ErrorCode::kToolFailed, "{} {}: {}", quote_command(spec.argv), result.describe(),
                    (result.error_output.empty() ? result.output : result.error_output).substr(0, 600));
}

// perf refuses an event that it has no name for, and only some processors have those of issue slots.
std::string perf_events() {
  std::string events =
      "duration_time,task-clock,cycles,instructions,LLC-load-misses,cache-misses,branch-misses,stalled-cycles-frontend,"
      "stalled-cycles-backend";
  // The unit of the cores; where there are two kinds, that of the ones that count slots.
  for (const std::string unit : {"cpu", "cpu_core"}) {
    const fs::path known = "/sys/bus/event_source/devices/" + unit + "/events";
    std::error_code ignored;
    if (!fs::exists(known / "topdown-retiring", ignored)) continue;
    std::string slots;
    for (const char* event : {"slots", "topdown-retiring", "topdown-bad-spec", "topdown-fe-bound", "topdown-be-bound",
                              "topdown-mem-bound"}) {
      if (fs::exists(known / event, ignored)) slots += fmt::format("{}{}/{}/", slots.empty() ? "" : ",", unit, event);
    }
    return fmt::format("{},{{{}}}", events, slots);
  }
  return events;
}

// The report of one run, as text; files in `folder`.
Result<std::string> record_run(const std::string& tool, const std::string& program, const fs::path& folder,
                               const std::vector<std::string>& command, const Options& options) {
  std::vector<std::string> argv;
  fs::path report;
  if (tool == "ncu") {
    report = folder / "ncu.csv";
    // ncu would lock the clocks to their base, which is a setting of the card that others share; utilisations do not
    // need it.
    argv = {program,     "--csv",           "--page",
            "raw",       "--clock-control", "none",
            "--metrics", kNcuMetrics,       "--target-processes",
            "all",       "--log-file",      report.string()};
  } else if (tool == "cupti") {
    argv = {program, "profile", "-t", "cuda", "--force-overwrite", "true", "-o", (folder / "trace").string()};
  } else if (tool == "rocprofv3") {
    report = folder / "out_kernel_trace.csv";
    argv = {program, "--kernel-trace", "--output-format", "csv", "-d", folder.string(), "-o", "out", "--"};
  } else {
    report = folder / "perf.csv";
    argv = {program, "stat", "-x,", "-o", report.string(), "-e", perf_events(), "--"};
  }
  argv.insert(argv.end(), command.begin(), command.end());
  RIDGE_TRY(printed, run(argv, options));
  (void)printed;
  if (tool == "cupti") {
    return run(
        {program, "stats", "--report", "cuda_gpu_trace", "--format", "csv", (folder / "trace.nsys-rep").string()},
        options);
  }
  return read_file(report);
}

}  // namespace

Result<record::ProfileReport> read_report(const fs::path& file, const std::string& tool, const Options& options) {
  std::string text;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return make_error(ErrorCode::kNotFound, "there is no report {}", file.string());
  const bool binary = file.extension() == ".ncu-rep";
  if (binary) {
    RIDGE_TRY(program, program_of("ncu"));
    RIDGE_TRY(printed, run({program, "--import", file.string(), "--csv", "--page", "raw"}, options));
    text = std::move(printed);
  } else {
    RIDGE_TRY(read, read_file(file));
    text = std::move(read);
  }
  Result<Capture> capture = parse_capture(text, binary ? "ncu" : tool);
  if (!capture) return in_context(file.string(), capture.error());
  RIDGE_TRY(report, analyse(*capture, options));
  report.from = file.string();
  return report;
}

std::string why_not(const std::string& tool) {
  const Result<std::string> program = program_of(tool);
  return program ? std::string() : program.error().text();
}

std::string vendor_here() {
  const Result<std::string> facts = read_file("/proc/cpuinfo");
  if (!facts) return {};
  if (facts->find("GenuineIntel") != std::string::npos) return "Intel";
  return facts->find("AuthenticAMD") != std::string::npos ? "AMD" : "";
}

std::string why_no_counters(const std::string& tool) {
  if (tool != "perf") return {};
  static const std::string why = [] {
    Options options;
    options.timeout = 10;
    const Result<record::ProfileReport> looked = collect("perf", {"/bin/true"}, options);
    if (!looked) return looked.error().message;
    if (metric(*looked, "instructions_per_cycle")) return std::string();
    return std::string(
        "perf counts neither cycles nor instructions on this machine (virtual machines seldom show their counters; "
        "else /proc/sys/kernel/perf_event_paranoid must be 2 or less)");
  }();
  return why;
}

Result<record::ProfileReport> collect(const std::string& tool, const std::vector<std::string>& command,
                                      const Options& options) {
  RIDGE_TRY(program, program_of(tool));
  std::string pattern = (fs::temp_directory_path() / "ridge-profile-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return make_error(ErrorCode::kIo, "cannot make a folder like {}", pattern);
  const fs::path folder = pattern;
  const Result<std::string> text = record_run(tool, program, folder, command, options);
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  if (!text) return text.error();
  if (!options.keep.empty()) RIDGE_CHECK_OK(write_file_durably(options.keep, *text));
  const Result<Capture> capture = parse_capture(*text, tool);
  if (!capture) return capture.error();
  Options here = options;
  here.vendor = vendor_here();
  RIDGE_TRY(report, analyse(*capture, here));
  report.from = quote_command(command);
  return report;
}

}  // namespace ridge::profile
