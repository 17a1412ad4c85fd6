#include "inspect/inspect.h"

#include <algorithm>

#include "base/error.h"
#include "base/large_file.h"
#include "hardware/occupancy.h"
#include "inspect/amdgpu.h"
#include "inspect/counts.h"
#include "inspect/cubin.h"
#include "inspect/disassemble.h"
#include "inspect/elf.h"
#include "inspect/fatbin.h"
#include "inspect/listing.h"
#include "inspect/verdicts.h"

namespace ridge::inspect {
namespace {

class Inspector {
 public:
  Inspector(std::string name, const Options& options) : name_(std::move(name)), options_(options) {}

  Result<std::vector<record::Inspection>> bytes(std::string_view content) {
    if (content.empty()) return invalid("{} is empty", name_);
    if (is_fatbin(content)) {
      RIDGE_CHECK_OK(fatbin(content));
    } else if (is_elf(content)) {
      RIDGE_TRY(elf, parse_elf(content));
      RIDGE_CHECK_OK(elf_file(elf, content));
    } else {
      RIDGE_TRY(isa, detect_listing(content));
      text(isa, content);
    }
    const bool none = std::all_of(found_.begin(), found_.end(), [](const auto& i) { return i.kernels.empty(); });
    if (none && !options_.kernel.empty())
      return make_error(ErrorCode::kNotFound, "{} has no kernel whose name contains \"{}\"", name_, options_.kernel);
    if (none) return make_error(ErrorCode::kNotFound, "{} holds no kernel", name_);
    return std::move(found_);
  }

 private:
  Status fatbin(std::string_view content) {
    RIDGE_TRY(images, read_fatbin(content));
    for (const FatbinImage& image : images) {
      if (image.is_ptx) {
        text(Isa::kPtx, image.bytes);
      } else {
        RIDGE_TRY(elf, parse_elf(image.bytes));
        RIDGE_CHECK_OK(elf_file(elf, image.bytes));
      }
    }
    return ok_status();
  }

  Status elf_file(const Elf& elf, std::string_view content) {
    if (elf.machine == kMachineCuda) return cubin(elf, content);
    if (elf.machine == kMachineAmdgpu) return amdgpu(elf, content);
    if (elf.machine != kMachineX86)
      return make_error(ErrorCode::kUnsupported, "{}: machine code of ELF machine {} is not known", name_, elf.machine);
    if (const Section* images = elf.find(".nv_fatbin"); images != nullptr && is_fatbin(images->data))
      return fatbin(images->data);
    record::Inspection& inspection = begin("object", Isa::kX86, "x86-64");
    return add_listing(Isa::kX86, content, inspection, true);
  }

  Status cubin(const Elf& elf, std::string_view content) {
    RIDGE_TRY(read, read_cubin(elf));
    record::Inspection& inspection = begin("cubin", Isa::kSass, read.target);
    for (CubinKernel& kernel : read.kernels)
      add_kernel(inspection, std::move(kernel.name), std::move(kernel.resources));
    return add_listing(Isa::kSass, content, inspection, false);
  }

  Status amdgpu(const Elf& elf, std::string_view content) {
    RIDGE_TRY(read, read_amdgpu(elf));
    record::Inspection& inspection = begin("code object", Isa::kAmdgcn, read.target);
    for (AmdKernel& kernel : read.kernels) add_kernel(inspection, std::move(kernel.name), std::move(kernel.resources));
    return add_listing(Isa::kAmdgcn, content, inspection, false);
  }

  void text(Isa isa, std::string_view content) {
    record::Inspection& inspection = begin("listing", isa, "");
    if (isa == Isa::kAmdgcn) add_metadata(content, inspection);
    take_listing(parse_listing(isa, content), inspection, true);
  }

  // Registers, spills and memory as the compiler noted them in its assembly.
  void add_metadata(std::string_view assembly, record::Inspection& inspection) {
    Result<AmdCodeObject> noted = read_amdgpu_text(assembly);
    if (!noted && noted.error().code != ErrorCode::kNotFound) inspection.notes.push_back(noted.error().message);
    if (!noted) return;
    inspection.target = noted->target;
    for (AmdKernel& kernel : noted->kernels)
      add_kernel(inspection, std::move(kernel.name), std::move(kernel.resources));
  }

  record::Inspection& begin(std::string format, Isa isa, std::string target) {
    record::Inspection inspection;
    inspection.file = name_;
    inspection.format = std::move(format);
    inspection.isa = to_string(isa);
    inspection.target = std::move(target);
    found_.push_back(std::move(inspection));
    return found_.back();
  }

  [[nodiscard]] bool wanted(const std::string& kernel) const {
    return kernel.find(options_.kernel) != std::string::npos;
  }

  void add_kernel(record::Inspection& inspection, std::string kernel, record::KernelResources resources) {
    if (!wanted(kernel)) return;
    record::KernelInspection k;
    k.name = std::move(kernel);
    k.resources = std::move(resources);
    inspection.kernels.push_back(std::move(k));
  }

  Status add_listing(Isa isa, std::string_view content, record::Inspection& inspection, bool new_kernels) {
    if (options_.listing) {
      const Result<Disassembly> code = disassemble(isa, content);
      if (code) {
        inspection.disassembler = code->tool;
        take_listing(parse_listing(isa, code->text), inspection, new_kernels);
        return ok_status();
      }
      if (options_.assembly) return code.error();
      inspection.notes.push_back(code.error().text());
    }
    finish(isa, inspection);
    return ok_status();
  }

  void take_listing(const Listing& listing, record::Inspection& inspection, bool new_kernels) {
    if (!listing.target.empty() && (inspection.target.empty() || listing.target.starts_with(inspection.target)))
      inspection.target = listing.target;
    for (const Function& function : listing.functions) {
      auto kernel = std::find_if(inspection.kernels.begin(), inspection.kernels.end(),
                                 [&](const auto& k) { return k.name == function.name; });
      if (kernel == inspection.kernels.end()) {
        if (!new_kernels || !wanted(function.name)) continue;
        inspection.kernels.push_back({});
        kernel = inspection.kernels.end() - 1;
        kernel->name = function.name;
      }
      count_kernel(listing.isa, function, *kernel);
      if (options_.assembly) kernel->assembly = assembly_of(listing.isa, function);
    }
    finish(listing.isa, inspection);
  }

  void finish(Isa isa, record::Inspection& inspection) {
    for (record::KernelInspection& kernel : inspection.kernels) {
      if (options_.product != nullptr) estimate_occupancy(inspection, kernel);
      kernel.verdicts = verdicts(kernel, isa != Isa::kX86, options_.expect_matrix);
    }
  }

  void estimate_occupancy(record::Inspection& inspection, record::KernelInspection& kernel) {
    const record::KernelResources& r = kernel.resources;
    const std::int64_t threads =
        options_.threads_per_block > 0 ? options_.threads_per_block : r.max_threads.value_or(0);
    if (!r.registers) return;
    if (threads == 0) {
      inspection.notes.push_back(kernel.name + ": the code does not bound its block; give --threads for the occupancy");
      return;
    }
    const hardware::KernelUse use{threads, *r.registers, r.shared_bytes.value_or(0) + options_.dynamic_shared_bytes};
    const Result<hardware::Occupancy> o = hardware::occupancy(*options_.product, use);
    if (!o) {
      inspection.notes.push_back(kernel.name + ": " + o.error().text());
      return;
    }
    kernel.occupancy = record::OccupancyEstimate{options_.product->name,
                                                 threads,
                                                 options_.dynamic_shared_bytes,
                                                 o->blocks_per_unit,
                                                 o->warps_per_unit,
                                                 o->max_warps_per_unit,
                                                 o->fraction,
                                                 o->limiter,
                                                 o->lift};
  }

  std::string name_;
  const Options& options_;
  std::vector<record::Inspection> found_;
};

void compare(const std::string& kernel, const std::map<std::string, std::int64_t>& left,
             const std::map<std::string, std::int64_t>& right, const std::string& prefix,
             std::vector<record::InstructionDifference>& out) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> both;
  for (const auto& [name, times] : left) both[name].first = times;
  for (const auto& [name, times] : right) both[name].second = times;
  for (const auto& [name, times] : both) {
    if (times.first != times.second) out.push_back({kernel, prefix + name, times.first, times.second});
  }
}

std::map<std::string, std::int64_t> listed(const record::KernelResources& r) {
  std::map<std::string, std::int64_t> values;
  const std::pair<const char*, const std::optional<std::int64_t>*> all[] = {{"registers", &r.registers},
                                                                            {"shared_bytes", &r.shared_bytes},
                                                                            {"stack_bytes", &r.stack_bytes},
                                                                            {"spill_store_bytes", &r.spill_store_bytes},
                                                                            {"spill_load_bytes", &r.spill_load_bytes},
                                                                            {"spilled_registers", &r.spilled_registers},
                                                                            {"barriers", &r.barriers},
                                                                            {"code_bytes", &r.code_bytes}};
  for (const auto& [name, value] : all) {
    if (*value) values[name] = **value;
  }
  return values;
}

}  // namespace

Result<std::vector<record::Inspection>> inspect_bytes(std::string_view bytes, const std::string& name,
                                                      const Options& options) {
  return Inspector(name, options).bytes(bytes);
}

Result<std::vector<record::Inspection>> inspect_file(const std::filesystem::path& file, const Options& options) {
  RIDGE_TRY(content, read_file_up_to(file, kCodeFileBytes));
  return inspect_bytes(content, file.string(), options);
}

std::vector<record::InstructionDifference> difference(const record::Inspection& left, const record::Inspection& right) {
  std::vector<record::InstructionDifference> out;
  const bool single = left.kernels.size() == 1 && right.kernels.size() == 1;
  for (const record::KernelInspection& a : left.kernels) {
    const auto b = single ? right.kernels.begin()
                          : std::find_if(right.kernels.begin(), right.kernels.end(),
                                         [&](const auto& k) { return k.name == a.name; });
    if (b == right.kernels.end()) {
      out.push_back({a.name, "kernel", 1, 0});
      continue;
    }
    compare(a.name, listed(a.resources), listed(b->resources), "", out);
    compare(a.name, a.counts.classes, b->counts.classes, "class ", out);
    compare(a.name, a.opcodes, b->opcodes, "", out);
  }
  for (const record::KernelInspection& b : right.kernels) {
    if (!single &&
        std::none_of(left.kernels.begin(), left.kernels.end(), [&](const auto& k) { return k.name == b.name; })) {
      out.push_back({b.name, "kernel", 0, 1});
    }
  }
  return out;
}

}  // namespace ridge::inspect
