// Comparing implementations on a GPU: operands from a random pattern in buffers of our own, as many sets in turn as
// displace each other from L2, on a stream of our own, timed by events around some milliseconds of calls.
#include "dispatch/tuning_run.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "base/error.h"
#include "device/cuda/buffer.h"
#include "device/cuda/device.h"
#include "device/cuda/stream.h"
#include "numerics/convert.h"
#include "numerics/fill.h"
#include "ops/arguments.h"
#include "ops/cuda/planned_call.h"

namespace ridge::dispatch {
namespace {

namespace gpu = device::cuda;

constexpr std::size_t kAlignment = 256;
constexpr std::int64_t kPatternElements = 1 << 20;  // repeated over an operand: filling on the host is slow
constexpr double kTimesL2 = 4;                      // bytes of all sets together, where that many fit
constexpr std::size_t kMostSets = 64;
constexpr double kMemoryShare = 0.5;  // of what is free
constexpr std::int64_t kSampledRows = 8;
// Two right outputs of one call differ by their roundings; a tile that is missing or in the wrong place, by everything.
constexpr double kMostDifference = 0.02, kMostDifference8Bit = 0.1;

std::size_t bytes_of(const ops::OperandSpec& spec) {
  return (size_bytes(spec.dtype, spec.element_count()) + kAlignment - 1) / kAlignment * kAlignment;
}

// One set of operands, dense, one after the other.
std::vector<TensorView> views_at(const ops::Problem& problem, char* start) {
  std::vector<TensorView> views;
  for (const ops::OperandSpec& spec : problem.operands) {
    views.push_back(ops::dense_view(spec, start));
    start += bytes_of(spec);
  }
  return views;
}

// One of a process, because libraries keep a workspace for every stream they ever saw.
Result<const gpu::Stream*> tuning_stream(const gpu::Device& device) {
  static std::mutex mutex;
  static auto* const streams = new std::map<int, gpu::Stream>;
  const std::scoped_lock lock(mutex);
  const auto found = streams->find(device.info().index);
  if (found != streams->end()) return &found->second;
  RIDGE_TRY(stream, gpu::Stream::create(device));
  return &streams->emplace(device.info().index, std::move(stream)).first->second;
}

Status fill(const ops::Problem& problem, const TensorView& view, std::size_t index, gpu::StreamHandle stream) {
  const std::int64_t count = view.element_count();
  const std::int64_t part = std::min(count, kPatternElements);
  const std::size_t bytes = size_bytes(view.dtype, count), pattern_bytes = size_bytes(view.dtype, part);
  if (problem.operands[index].output) return gpu::fill_bytes(view.data, 0, bytes, stream);
  const ops::Fill& rule = problem.operands[index].fill;
  if (rule.rule != ops::Fill::Rule::kNumbers) {  // means something for the whole operand only
    std::vector<std::byte> whole(bytes);
    TensorView there = view;
    there.data = whole.data();
    ops::fill_input(rule, there, numerics::Family::kNormal, 11 + index);
    RIDGE_CHECK_OK(gpu::copy_to_device(view.data, whole.data(), bytes, stream));
    return gpu::synchronize(stream);
  }
  std::vector<std::byte> pattern(pattern_bytes);
  numerics::fill(TensorView::contiguous(pattern.data(), view.dtype, {part}), numerics::Family::kMixture, 11 + index);
  RIDGE_CHECK_OK(gpu::copy_to_device(view.data, pattern.data(), pattern_bytes, stream));
  RIDGE_CHECK_OK(gpu::synchronize(stream));  // the pattern ends with this scope
  auto* start = static_cast<char*>(view.data);
  for (std::size_t done = pattern_bytes; done < bytes; done *= 2) {
    RIDGE_CHECK_OK(gpu::copy_on_device(start + done, start, std::min(done, bytes - done), stream));
  }
  return ok_status();
}

class CudaTuningRun final : public TuningRun {
 public:
  CudaTuningRun(const ops::Problem& problem, const gpu::Device& device, const gpu::Stream& stream, Prober& prober)
      : problem_(problem), device_(device), stream_(stream), prober_(prober) {}

  Status set_up() {
    std::size_t bytes = 0;
    for (const ops::OperandSpec& spec : problem_.operands) bytes += bytes_of(spec);
    RIDGE_TRY(memory, device_.memory());
    const auto usable = static_cast<std::size_t>(kMemoryShare * static_cast<double>(memory.free_bytes));
    if (bytes > usable) {
      return make_error(ErrorCode::kUnsupported,
                        "{}: operands of {} bytes to measure on, and half of the GPU's free memory is {}",
                        problem_.problem_case.text(), bytes, usable);
    }
    const double wanted = kTimesL2 * static_cast<double>(device_.info().l2_bytes) / static_cast<double>(bytes + 1);
    const std::size_t sets = std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(wanted)), 1,
                                                     std::min(kMostSets, usable / std::max<std::size_t>(bytes, 1)));
    RIDGE_TRY(buffer, gpu::Buffer::allocate(device_, std::max<std::size_t>(bytes * sets, 1)));
    buffer_ = std::move(buffer);
    auto* start = static_cast<char*>(buffer_.data());
    for (std::size_t i = 0; i < sets; ++i) sets_.push_back(views_at(problem_, start + i * bytes));
    for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
      RIDGE_CHECK_OK(fill(problem_, sets_[0][i], i, stream_.handle()));
    }
    for (std::size_t i = 1; i < sets; ++i) {
      RIDGE_CHECK_OK(gpu::copy_on_device(start + i * bytes, start, bytes, stream_.handle()));
    }
    RIDGE_TRY(begin, gpu::Event::create());
    RIDGE_TRY(end, gpu::Event::create());
    events_.push_back(std::move(begin));
    events_.push_back(std::move(end));
    return stream_.synchronize();
  }

  std::optional<std::string> wrong(const Choice& choice) override {
    if (auto why = prober_.wrong(choice, problem_)) return why;
    auto seen = sample(choice);
    if (!seen) return seen.error().text();
    if (first_.empty()) {
      first_ = std::move(*seen);
      first_name_ = choice.name();
      return std::nullopt;
    }
    return disagreement(*seen);
  }

  std::optional<double> seconds(const Choice& choice, std::int64_t calls) override {
    const ops::Problem problem = configured(problem_, choice);
    const Stream stream = stream_.view();
    if (!events_[0].record(stream_.handle())) return std::nullopt;
    for (std::int64_t i = 0; i < calls; ++i) {
      if (!choice.implementation->run(problem, sets_[next_++ % sets_.size()], stream)) return std::nullopt;
    }
    if (!events_[1].record(stream_.handle()) || !events_[1].synchronize()) return std::nullopt;
    const auto span = events_[1].since(events_[0]);
    if (!span) return std::nullopt;
    return std::max(*span, 1e-9) / static_cast<double>(calls);
  }

 private:
  // Some rows of every output after a call that began with outputs of NaN, or of zeros where they are added to.
  Result<std::vector<std::vector<double>>> sample(const Choice& choice) {
    const std::vector<TensorView>& views = sets_[0];
    for (std::size_t i = 0; i < views.size(); ++i) {
      const ops::OperandSpec& spec = problem_.operands[i];
      if (!spec.output) continue;
      RIDGE_CHECK_OK(gpu::fill_bytes(views[i].data, spec.read_write ? 0 : 0xff,
                                     size_bytes(spec.dtype, spec.element_count()), stream_.handle()));
    }
    RIDGE_CHECK_OK(choice.implementation->run(configured(problem_, choice), views, stream_.view()));
    std::vector<std::vector<double>> rows;
    for (std::size_t i = 0; i < views.size(); ++i) {
      if (!problem_.operands[i].output || views[i].element_count() == 0) continue;
      RIDGE_TRY(seen, sampled_rows(views[i]));
      rows.push_back(std::move(seen));
    }
    return rows;
  }

  Result<std::vector<double>> sampled_rows(const TensorView& view) const {
    const std::int64_t cols = view.shape[static_cast<std::size_t>(view.rank - 1)];
    const std::int64_t rows = view.element_count() / cols;
    const std::size_t bytes = size_bytes(view.dtype, cols);
    std::vector<double> values;
    std::vector<std::byte> row(bytes);
    for (std::int64_t i = 0; i < std::min(rows, kSampledRows); ++i) {
      // Evenly over all rows, the first and the last among them, in different places of their tiles.
      const std::int64_t at = i * (rows - 1) / std::max<std::int64_t>(1, std::min(rows, kSampledRows) - 1);
      const auto* source = static_cast<const char*>(view.data) + static_cast<std::size_t>(at) * bytes;
      RIDGE_CHECK_OK(gpu::copy_to_host(row.data(), source, bytes, stream_.handle()));
      RIDGE_CHECK_OK(stream_.synchronize());
      const auto numbers = numerics::to_doubles(TensorView::contiguous(row.data(), view.dtype, {cols}));
      values.insert(values.end(), numbers.begin(), numbers.end());
    }
    return values;
  }

  std::optional<std::string> disagreement(const std::vector<std::vector<double>>& seen) const {
    std::size_t output = 0;
    for (const ops::OperandSpec& spec : problem_.operands) {
      if (!spec.output || spec.element_count() == 0) continue;
      const std::vector<double>&left = first_[output], &right = seen[output];
      ++output;
      double difference = 0, size = 0;
      for (std::size_t e = 0; e < left.size(); ++e) {
        difference += (left[e] - right[e]) * (left[e] - right[e]);
        size += left[e] * left[e];
      }
      const double allowed = size_bits(spec.dtype) <= 8 ? kMostDifference8Bit : kMostDifference;
      if (std::sqrt(difference) <= allowed * std::sqrt(size)) continue;
      return fmt::format("{}: {} sampled rows of {} differ from those of {} by {:.3g} of their RMS, {:.3g} is allowed",
                         problem_.problem_case.text(), kSampledRows, spec.name, first_name_,
                         std::sqrt(difference / size), allowed);
    }
    return std::nullopt;
  }

  const ops::Problem& problem_;
  const gpu::Device& device_;
  const gpu::Stream& stream_;
  Prober& prober_;
  gpu::Buffer buffer_;
  std::vector<std::vector<TensorView>> sets_;
  std::vector<gpu::Event> events_;
  std::size_t next_ = 0;
  std::vector<std::vector<double>> first_;
  std::string first_name_;
};

Status run_on_gpu(const ops::Implementation& one, const ops::Problem& problem, const std::vector<TensorView>& host,
                  int index) {
  RIDGE_TRY(device, gpu::Device::open(index));
  RIDGE_CHECK_OK(device->make_current());
  RIDGE_TRY(stream, tuning_stream(*device));
  std::size_t bytes = 0;
  for (const ops::OperandSpec& spec : problem.operands) bytes += bytes_of(spec);
  RIDGE_TRY(buffer, gpu::Buffer::allocate(*device, std::max<std::size_t>(bytes, 1)));
  const std::vector<TensorView> views = views_at(problem, static_cast<char*>(buffer.data()));
  for (std::size_t i = 0; i < views.size(); ++i) {
    const std::size_t size = size_bytes(views[i].dtype, views[i].element_count());
    RIDGE_CHECK_OK(gpu::copy_to_device(views[i].data, host[i].data, size, stream->handle()));
  }
  RIDGE_CHECK_OK(one.run(problem, views, stream->view()));
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (!problem.operands[i].output) continue;
    const std::size_t size = size_bytes(views[i].dtype, views[i].element_count());
    RIDGE_CHECK_OK(gpu::copy_to_host(host[i].data, views[i].data, size, stream->handle()));
  }
  return stream->synchronize();
}

}  // namespace

Result<std::unique_ptr<TuningRun>> make_cuda_course(const ops::Problem& problem, const Stream& stream, Prober& prober) {
  RIDGE_TRY(device, gpu::Device::open(stream.device));
  RIDGE_CHECK_OK(device->make_current());
  RIDGE_TRY(own, tuning_stream(*device));
  auto run = std::make_unique<CudaTuningRun>(problem, *device, *own, prober);
  RIDGE_CHECK_OK(run->set_up());
  return std::unique_ptr<TuningRun>(std::move(run));
}

Runner cuda_runner(const Stream& stream) {
  return [index = stream.device](const ops::Implementation& one, const ops::Problem& problem,
                                 const std::vector<TensorView>& host) { return run_on_gpu(one, problem, host, index); };
}

bool is_recording(const Stream& stream) {
  if (stream.backend != Backend::kCuda) return false;
  const auto device = gpu::Device::open(stream.device);
  if (!device || !(*device)->make_current()) return false;
  const auto recording = gpu::is_capturing(gpu::handle_of(stream));
  return !recording || *recording;
}

Status run_together(const std::function<Status()>& calls, const Stream& stream) {
  if (stream.backend != Backend::kCuda) return calls();
  ops::GatheredCalls gathered(gpu::handle_of(stream));
  const Status ran = calls();
  const Status launched = gathered.launch();  // also those before one that failed
  return ran ? launched : ran;
}

CallersContext::CallersContext(const Stream& stream) {
  if (stream.backend != Backend::kCuda) return;
  const auto current = gpu::current_context();
  known_ = current.has_value();
  context_ = current.value_or(nullptr);
}
CallersContext::~CallersContext() {
  if (known_) gpu::set_current_context(context_);
}

}  // namespace ridge::dispatch
