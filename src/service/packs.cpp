#include "service/packs.h"

#include "base/error.h"
#include "record/kernel_target.h"
#include "service/worker_call.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

// Absolute: a worker has another working directory, which is removed with it.
std::string pack_of(const Context& context, const std::string& pack) {
  return fs::absolute(pack.empty() ? default_pack(context) : fs::path(pack)).string();
}

// The file of one architecture of several, or of one that was named: "mine-sm_90a.pack".
std::string pack_for(const Context& context, const PackRequest& options, const std::string& target,
                     std::size_t targets) {
  if (target.empty() || (targets == 1 && !options.pack.empty())) return pack_of(context, options.pack);
  const fs::path whole = pack_of(context, options.pack);
  return (whole.parent_path() / fmt::format("{}-{}{}", whole.stem().string(), target, whole.extension().string()))
      .string();
}

Result<std::vector<std::string>> targets_of(const PackRequest& options) {
  if (options.targets == PackRequest().targets) return std::vector<std::string>{""};
  auto parsed = record::parse_kernel_targets(options.targets);
  if (!parsed) return in_context("--arch", parsed.error());
  return parsed;
}

}  // namespace

fs::path default_pack(const Context& context) { return context.cache_directory / "packs" / "kernels.pack"; }

Result<std::vector<BuiltPack>> build_packs(const Context& context, const PackRequest& options,
                                           const std::function<void(const BuiltPack&)>& on_built) {
  RIDGE_TRY(targets, targets_of(options));
  std::string shapes = options.shapes;
  if (shapes.empty() && options.words.empty() && options.op == kAllOperators)
    shapes = (context.data_directory / "shapes" / "kernels.txt").string();
  RIDGE_TRY(asked, asked_cases(options.op, options.words, shapes));
  record::WorkerRequest request;
  request.task = record::WorkerTask::kKernels;
  request.configurations = options.configurations;
  for (const AskedCases& one : asked) request.cases.insert(request.cases.end(), one.cases.begin(), one.cases.end());
  std::vector<BuiltPack> packs;
  for (const std::string& target : targets) {
    request.pack = pack_for(context, options, target, targets.size());
    if (!target.empty()) request.backend = target;
    RIDGE_TRY(response, ask_worker(context, request));
    packs.push_back({request.pack, std::move(*response.pack)});
    if (on_built) on_built(packs.back());
  }
  return packs;
}

Result<BuiltPack> read_pack(const Context& context, const std::string& pack) {
  const std::string path = pack_of(context, pack);
  RIDGE_TRY(head, record::read_pack_head(path));
  RIDGE_TRY(parsed, record::parse_pack(head, path));
  return BuiltPack{path, std::move(parsed)};
}

Result<CheckedPack> verify_pack(const Context& context, const std::string& pack) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kKernels;
  request.pack = pack_of(context, pack);
  const std::string path = request.pack;
  RIDGE_TRY(response, ask_worker(context, std::move(request)));
  return CheckedPack{{path, std::move(*response.pack)}, std::move(response.pack_problems)};
}

}  // namespace ridge::service
