#include "service/inspect_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "hardware/spec.h"
#include "inspect/inspect.h"
#include "inspect/shipped.h"

namespace ridge::service {
namespace {

// What a request asks of every file; the product is found once.
struct Asked {
  inspect::Options options;
  std::optional<hardware::Spec> product;
};

Status fill(const Context& context, const InspectRequest& request, Asked& asked) {
  asked.options.kernel = request.kernel;
  asked.options.threads_per_block = request.threads;
  asked.options.dynamic_shared_bytes = request.dynamic_shared;
  asked.options.expect_matrix = request.expect_matrix;
  asked.options.listing = !request.no_listing;
  asked.options.assembly = request.assembly;
  if (request.product.empty()) return ok_status();
  RIDGE_TRY(database, hardware::Database::open(context.data_directory));
  RIDGE_TRY(spec, database.find(request.product));
  asked.product = *spec;
  asked.options.product = &*asked.product;
  return ok_status();
}

// A file; or, where there is none, a shipped kernel that is built for this.
Result<std::vector<record::Inspection>> images_of(const Context& context, const std::string& what,
                                                  const inspect::Options& options) {
  std::error_code ignored;
  if (std::filesystem::exists(what, ignored) || !inspect::names_shipped_kernel(what))
    return inspect::inspect_file(what, options);
  RIDGE_TRY(built,
            inspect::build_shipped(context.library_sources, context.kernel_builds, what, context.cache_directory));
  RIDGE_TRY(inspections, inspect::inspect_bytes(built.cubin, built.name, options));
  for (record::Inspection& one : inspections) one.notes.push_back("built with " + built.compiler);
  return inspections;
}

}  // namespace

Result<std::vector<record::Inspection>> inspect_files(const Context& context, const InspectRequest& request) {
  if (request.assembly && request.no_listing) return invalid("--assembly and --no-listing: name one");
  Asked asked;
  RIDGE_CHECK_OK(fill(context, request, asked));
  return images_of(context, request.file, asked.options);
}

bool has_bad_verdict(const std::vector<record::Inspection>& inspections) {
  return std::ranges::any_of(inspections, [](const record::Inspection& inspection) {
    return std::ranges::any_of(inspection.kernels, [](const record::KernelInspection& kernel) {
      return std::ranges::any_of(kernel.verdicts, [](const auto& v) { return v.severity == "bad"; });
    });
  });
}

Result<std::vector<record::InstructionDifference>> compare_files(const Context& context, const InspectRequest& request,
                                                                 const std::string& other) {
  if (request.assembly) return invalid("--assembly and {}: name one", request.no_listing ? "--no-listing" : "--diff");
  Asked asked;
  RIDGE_CHECK_OK(fill(context, request, asked));
  RIDGE_TRY(left, images_of(context, request.file, asked.options));
  RIDGE_TRY(right, images_of(context, other, asked.options));
  if (left.size() != 1 || right.size() != 1)
    return invalid("--diff compares single images; these files hold {} and {}", left.size(), right.size());
  return inspect::difference(left.front(), right.front());
}

}  // namespace ridge::service
