// From a profiler's capture to what limits a kernel.
//
//   target        the kernel to judge: by name, or the one that takes most of the time. Never the first launch, and
//                 refused when the name fits several kernels or no kernel stands out
//   metrics       the tool's counters in names of no tool (metrics.h), over all launches of the target; what the tool
//                 could have said and did not is listed, and is never taken for zero
//   classify      what limits, and hypotheses ranked by what removing each could bring
//
// A profiler never times: its latencies come from a machine under observation, and no decision reads them.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "profile/capture.h"
#include "record/profile.h"

namespace ridge::profile {

struct Options {
  std::string kernel;                  // part of the target's name; empty: by its share of the time
  double bandwidth = 0;                // B/s of the memory, for tools that count bytes and no fraction; 0: not known
  double flops = 0;                    // FLOP/s, for tools that count operations
  double timeout = 1800;               // collect: seconds, then the program is killed with all that it started
  std::function<bool()> should_stop;   // collect: asked about ten times a second; true kills it
  double kernel_share = 1;             // perf: of the counted time, how much the kernel itself ran
  std::string vendor;                  // perf: "Intel" or "AMD", whose events of one name differ; empty: not known
  std::map<std::string, double> code;  // perf: of the kernel's machine code, as toolchain/listing.h names it
  std::filesystem::path keep;  // collect: where the tool's own report goes as well, before it is read; empty: nowhere
};

// Above this share of the time a kernel stands out without being named.
inline constexpr double kTargetShare = 0.6;

Result<record::ProfileReport> analyse(const Capture& capture, const Options& options);

// A report file of any of the tools; a .ncu-rep is opened with ncu, which must be there. `tool` empty: by its looks.
Result<record::ProfileReport> read_report(const std::filesystem::path& file, const std::string& tool,
                                          const Options& options);

// Empty where the tool can be run here; otherwise what is missing, and how to get it.
std::string why_not(const std::string& tool);

// Of this machine's processor, for Options; empty where it is neither Intel's nor AMD's.
std::string vendor_here();

// Empty where the tool's counters count here, which one run of a program that does nothing shows (perf; of others it is
// not known before they run); otherwise the reason. Asked once in a process.
std::string why_no_counters(const std::string& tool);

// Runs `command` under ncu, cupti (nsys), rocprofv3 or perf. kUnsupported says what is missing and how to get it.
// rocprof-compute is read only: it runs a program many times into a folder of its own.
Result<record::ProfileReport> collect(const std::string& tool, const std::vector<std::string>& command,
                                      const Options& options);

std::string to_text(const record::ProfileReport& report);

// The median of a metric; nullopt when the report lacks it.
std::optional<double> metric(const record::ProfileReport& report, std::string_view name);

// classify.cpp: fills bottleneck, verdict and hypotheses from the metrics.
void classify(record::ProfileReport& report);
// processor.cpp: the same of what perf counted.
void classify_processor(record::ProfileReport& report, const Options& options);

}  // namespace ridge::profile
