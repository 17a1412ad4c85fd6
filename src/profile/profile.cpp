#include "profile/profile.h"

#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include "base/error.h"
#include "profile/metrics.h"

namespace ridge::profile {
namespace {

std::vector<record::ProfiledKernel> kernels_of(const Capture& capture) {
  std::map<std::string, record::ProfiledKernel> by_name;
  double all = 0;
  for (const Launch& launch : capture.launches) {
    record::ProfiledKernel& kernel = by_name[launch.kernel];
    kernel.name = launch.kernel;
    ++kernel.launches;
    kernel.time += launch.duration;
    all += launch.duration;
  }
  std::vector<record::ProfiledKernel> kernels;
  for (auto& [name, kernel] : by_name) {
    kernel.share = all > 0 ? kernel.time / all : 0;
    kernels.push_back(std::move(kernel));
  }
  std::stable_sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) { return a.time > b.time; });
  return kernels;
}

std::string list_of(const std::vector<record::ProfiledKernel>& kernels) {
  std::vector<std::string> lines;
  for (const record::ProfiledKernel& kernel : kernels)
    lines.push_back(fmt::format("{} ({:.0f} % of the time)", kernel.name, 100 * kernel.share));
  return fmt::format("{}", fmt::join(lines, "; "));
}

Result<std::string> target_of(const std::vector<record::ProfiledKernel>& kernels, const std::string& wanted) {
  if (wanted.empty()) {
    if (kernels.size() == 1 || kernels.front().share > kTargetShare) return kernels.front().name;
    return with_hint(invalid("no kernel takes {:.0f} % of the time: {}", 100 * kTargetShare, list_of(kernels)),
                     "name the one that is meant with --kernel");
  }
  std::vector<record::ProfiledKernel> fit;
  for (const record::ProfiledKernel& kernel : kernels) {
    if (kernel.name == wanted) return kernel.name;
    if (kernel.name.find(wanted) != std::string::npos) fit.push_back(kernel);
  }
  if (fit.size() == 1) return fit.front().name;
  if (fit.empty())
    return with_hint(make_error(ErrorCode::kNotFound, "no kernel is called \"{}\"", wanted),
                     "the report holds " + list_of(kernels));
  return with_hint(invalid("\"{}\" fits {} kernels", wanted, fit.size()), "it fits " + list_of(fit));
}

std::string percent_or_number(const record::ProfileMetric& metric) {
  if (metric.unit == "s") return fmt::format("{:.2f} us", 1e6 * metric.median);
  if (metric.unit == "B") return fmt::format("{:.4g} B", metric.median);
  const bool fraction = metric.name.ends_with("_fraction") || metric.name.ends_with("_efficiency");
  return fraction ? fmt::format("{:.1f} %", 100 * metric.median) : fmt::format("{:.4g}", metric.median);
}

}  // namespace

std::optional<double> metric(const record::ProfileReport& report, std::string_view name) {
  for (const record::ProfileMetric& one : report.metrics) {
    if (one.name == name) return one.median;
  }
  return std::nullopt;
}

Result<record::ProfileReport> analyse(const Capture& capture, const Options& options) {
  record::ProfileReport report;
  report.tool = capture.tool;
  report.device = capture.device;
  report.kernels = kernels_of(capture);
  if (report.kernels.empty()) return invalid("the report holds no kernel");
  RIDGE_TRY(target, target_of(report.kernels, options.kernel));
  report.kernel = target;
  std::vector<const Launch*> launches;
  for (const Launch& launch : capture.launches) {
    if (launch.kernel == target) launches.push_back(&launch);
  }
  fill_metrics(capture, launches, options, report);
  report.missing.insert(report.missing.end(), capture.remarks.begin(), capture.remarks.end());
  if (report.tool == "perf") {
    classify_processor(report, options);
  } else {
    classify(report);
  }
  return report;
}

std::string to_text(const record::ProfileReport& report) {
  std::string text = fmt::format("{} ({})\n", report.kernel, report.tool);
  for (const record::ProfiledKernel& kernel : report.kernels) {
    text += fmt::format("  {:5.1f} % of the time, {} launch{}  {}\n", 100 * kernel.share, kernel.launches,
                        kernel.launches == 1 ? "" : "es", kernel.name);
  }
  for (const record::ProfileMetric& one : report.metrics) {
    text += fmt::format("  {:26} {:>12}   {}\n", one.name, percent_or_number(one), one.source);
  }
  if (!report.missing.empty()) text += fmt::format("  not in this report: {}\n", fmt::join(report.missing, ", "));
  text += fmt::format("{}: {}\n", record::name_of(report.bottleneck), report.verdict);
  for (std::size_t i = 0; i < report.hypotheses.size(); ++i) {
    const record::ProfileHypothesis& h = report.hypotheses[i];
    text += fmt::format("  {}. {} (at most {:+.0f} %): {}; {}\n", i + 1, h.name, 100 * h.gain, h.evidence, h.action);
  }
  return text;
}

}  // namespace ridge::profile
