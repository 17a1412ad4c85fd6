#include "evaluate/cuda/output_verifier.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "numerics/convert.h"
#include "numerics/format.h"

namespace ridge::evaluate::cuda {
namespace {

using ops::CheckLaunch;
using record::Defence;
using record::Outcome;

constexpr std::int64_t kMostOffsets = 1 << 16;  // sorted by comparing each with all
constexpr std::size_t kMaxZones = 3 * kMostOperands + 8;
constexpr std::int64_t kChunk = 1 << 22;  // elements compared at once: 128 MiB of reference values

constexpr std::int64_t kMaxRows = 1 << 20;  // at once: a grid has 65535 blocks on its second side

bool filled(const ops::OperandSpec& spec) { return !spec.output || spec.read_write; }

std::int64_t pitch_gap(const ops::DeviceMatrix& matrix) { return matrix.pitch - matrix.columns; }
std::int64_t element_bytes(const TensorView& view) { return size_bits(view.dtype) / 8; }

// Bits that no result has: a NaN with a random payload, a number near the end of the type's range, or of whole numbers
// a negative one.
std::uint64_t poison_code(DType dtype, bool nan, std::uint64_t random) {
  if (is_integer(dtype)) return ~(random & 0x3f) & (~std::uint64_t{0} >> (64 - size_bits(dtype)));
  const numerics::FloatFormat format = numerics::format_of(dtype);
  const std::uint64_t mantissa = (std::uint64_t{1} << format.mantissa_bits) - 1;
  const std::uint64_t sign = (random >> 63) != 0 && dtype != DType::kE8m0 ? format.sign_bit() : 0;
  if (nan) return format.infinity_code == 0 ? format.nan_code | sign : format.nan_code | sign | (random & mantissa);
  return ((format.max_code & ~mantissa) | (random & mantissa & ~std::uint64_t{1})) == format.nan_code
             ? format.max_code
             : ((format.max_code & ~mantissa) | (random & mantissa & ~std::uint64_t{1})) | sign;
}

// Every code of 8 bits is some right answer's, but for NaN: only there does poison tell that nothing was written.
bool poison_tells(const Call& call, const ops::OperandSpec& spec) {
  return !spec.read_write && (call.nan || size_bits(spec.dtype) > 8);
}

double float_of_key(std::uint64_t key) { return std::bit_cast<float>(static_cast<std::uint32_t>(key >> 32)); }

// How uncertain a mean of `count` squares is: one error alone is a matter of luck.
double square_limit(double count) { return 4.0 * (1.0 + 8.0 / std::sqrt(std::max(count, 1.0))); }

}  // namespace

Result<std::unique_ptr<OutputVerifier>> OutputVerifier::create(const device::cuda::Device& device, CheckModule& harness,
                                                               CheckModule& checks, const ops::DeviceCheck& check,
                                                               const std::vector<ops::Problem>& problems,
                                                               const Defences& defences,
                                                               device::cuda::StreamHandle stream) {
  using device::cuda::Buffer;
  using device::cuda::PinnedBuffer;
  std::unique_ptr<OutputVerifier> made(new OutputVerifier(device, harness, checks, check, defences, stream));
  std::size_t scratch = 0, old_bytes = 0;
  std::int64_t widest = 1;
  for (const ops::Problem& problem : problems) {
    if (problem.operands.size() > kMostOperands) {
      return make_error(ErrorCode::kUnsupported, "{}: {} operands; at most {} can be watched",
                        problem.problem_case.text(), problem.operands.size(), kMostOperands);
    }
    for (const ops::OperandSpec& spec : problem.operands) {
      if (spec.fill.rule != ops::Fill::Rule::kOffsets || spec.element_count() <= kMostOffsets) continue;
      return make_error(ErrorCode::kUnsupported, "{}: {} has {} numbers; at most {} are sorted on the device",
                        problem.problem_case.text(), spec.name, spec.element_count(), kMostOffsets);
    }
    scratch = std::max(scratch, check.scratch_bytes(problem));
    std::size_t old = 0;
    for (const ops::OperandSpec& spec : problem.operands) {
      if (spec.read_write) old += size_bytes(spec.dtype, spec.element_count()) + 256;
      if (spec.output && !spec.shape.empty()) widest = std::max(widest, spec.shape.back());
    }
    old_bytes = std::max(old_bytes, old);
  }
  made->chunk_ = std::max(kChunk, widest);
  const auto chunk_bytes = static_cast<std::size_t>(made->chunk_) * 4 * sizeof(double);
  RIDGE_TRY(zones, PinnedBuffer::allocate(device, kMaxChain * kMaxZones * sizeof(Zone)));
  RIDGE_TRY(blank, PinnedBuffer::allocate(device, kMaxChain * sizeof(Report)));
  RIDGE_TRY(reports, PinnedBuffer::allocate(device, kMaxChain * sizeof(Report)));
  RIDGE_TRY(before, PinnedBuffer::allocate(device, kMaxChain * kMostOperands * sizeof(std::uint64_t)));
  RIDGE_TRY(predictors, PinnedBuffer::allocate(device, 8 * sizeof(ops::DeviceMatrix)));
  RIDGE_TRY(device_reports, Buffer::allocate(device, kMaxChain * sizeof(Report)));
  RIDGE_TRY(device_hashes, Buffer::allocate(device, kMaxChain * kMostOperands * sizeof(std::uint64_t)));
  RIDGE_TRY(scratch_buffer, Buffer::allocate(device, scratch));
  RIDGE_TRY(reference, Buffer::allocate(device, chunk_bytes));
  RIDGE_TRY(compared, Buffer::allocate(device, sizeof(Compared)));
  RIDGE_TRY(bias, Buffer::allocate(device, sizeof(numerics::BiasSums)));
  RIDGE_TRY(old_content, Buffer::allocate(device, old_bytes));
  made->zones_ = std::move(zones);
  made->blank_ = std::move(blank);
  made->reports_ = std::move(reports);
  made->hashes_before_ = std::move(before);
  made->predictors_ = std::move(predictors);
  made->device_reports_ = std::move(device_reports);
  made->device_hashes_ = std::move(device_hashes);
  made->scratch_ = std::move(scratch_buffer);
  made->reference_ = std::move(reference);
  made->compared_ = std::move(compared);
  made->bias_ = std::move(bias);
  made->old_content_ = std::move(old_content);
  for (std::size_t i = 0; i < kMaxChain; ++i) made->blank_.as<Report>()[i] = Report{};
  return made;
}

Status OutputVerifier::run(std::string kernel, std::int64_t work, std::vector<CheckLaunch::Argument> arguments,
                           std::uint32_t grid_y) {
  return harness_.run({std::move(kernel), blocks_for(work), grid_y, 256, std::move(arguments)}, stream_);
}

void OutputVerifier::draw(Call& call, measure::Coin& coin, std::optional<std::uint64_t> seed) {
  call.canary_key = coin.next();
  call.hash_keys[0] = coin.next();
  call.hash_keys[1] = coin.next();
  call.nan = coin.flip();
  measure::Coin seeds(seed ? *seed : secrets_.next());
  call.seeds.clear();
  call.poison.clear();
  for (const ops::OperandSpec& spec : call.problem->operands) {
    call.seeds.push_back(seeds.next());
    call.poison.push_back(poison_code(spec.dtype, call.nan, coin.next()));
  }
  call.scalars = ops::draw_scalars(*call.problem, seeds.next());
}

// The content of operand `index`, wherever it lies: the same seed and family give the same numbers.
Status OutputVerifier::fill(const Call& call, std::size_t index, const ops::DeviceMatrix& matrix) {
  using Rule = ops::Fill::Rule;
  const ops::Fill& fill = call.problem->operands[index].fill;
  const std::int64_t elements = matrix.rows * matrix.columns;
  const CheckLaunch::Argument family = CheckLaunch::number(static_cast<std::int64_t>(call.family));
  const std::uint64_t seed = call.seeds[index];
  switch (fill.rule) {
    case Rule::kNumbers: return run("ridge_fill", elements / 4 + 1, {matrix, family, seed});
    case Rule::kUniform:
    case Rule::kIndices:
      return run("ridge_fill_range", elements,
                 {matrix, family, seed, CheckLaunch::real(fill.least), CheckLaunch::real(fill.most),
                  std::uint64_t{fill.rule == Rule::kIndices}});
    case Rule::kOffsets: {
      const double step = std::max(fill.least, 1.0);
      return run("ridge_fill_offsets", elements,
                 {matrix, family, seed, CheckLaunch::real(fill.most / step), CheckLaunch::real(step)});
    }
    case Rule::kProbabilities: return run("ridge_fill_probabilities", 32 * matrix.rows, {matrix, family, seed});
  }
  return make_error(ErrorCode::kInternal, "a rule that is not known");
}

Status OutputVerifier::poison(const Call& call) {
  for (std::size_t i = 0; i < call.place.operands.size(); ++i) {
    const ops::DeviceMatrix matrix = ops::device_matrix(call.place.operands[i]);
    const ops::OperandSpec& spec = call.problem->operands[i];
    if (matrix.rows * matrix.columns == 0) continue;
    if (filled(spec)) {
      if (!spec.read_write) continue;
      RIDGE_CHECK_OK(fill(call, i, matrix));
      continue;
    }
    // Without this defence outputs start as most harnesses leave them: cleared.
    const std::uint64_t code = defences_.on(Defence::kPoison) ? call.poison[i] : 0;
    RIDGE_CHECK_OK(run("ridge_fill_code", matrix.rows * matrix.columns, {matrix, code}));
  }
  return ok_status();
}

// One NaN and one infinity, at secret places that the seed determines.
Status OutputVerifier::plant_specials(const TensorView& view, std::uint64_t seed) {
  const numerics::FloatFormat format = numerics::format_of(view.dtype);
  if (view.element_count() < 2) return ok_status();
  measure::Coin where(seed);
  for (const std::uint64_t code : {format.nan_code, format.infinity_code}) {
    const auto at = static_cast<std::int64_t>(where.below(static_cast<std::uint64_t>(view.element_count())));
    if (code != 0) RIDGE_CHECK_OK(run("ridge_plant", 1, {ops::device_matrix(view), CheckLaunch::number(at), code}));
  }
  return ok_status();
}

Status OutputVerifier::plant(const Call& call, std::size_t index, const TensorView& view) {
  // What cannot be any number stays as its rule has it.
  if (call.problem->operands[index].fill.rule != ops::Fill::Rule::kNumbers) return ok_status();
  if (call.specials) RIDGE_CHECK_OK(plant_specials(view, call.seeds[index]));
  if (!call.replaced || view.element_count() == 0) return ok_status();
  measure::Coin where(*call.replaced + index);
  const auto at = static_cast<std::int64_t>(where.below(static_cast<std::uint64_t>(view.element_count())));
  const bool has_sign = view.dtype != DType::kE8m0 && !is_integer(view.dtype);
  const double value = has_sign && where.flip() ? -6.0 : 6.0;
  return run("ridge_plant", 1,
             {ops::device_matrix(view), CheckLaunch::number(at), numerics::encode(view.dtype, value)});
}

Status OutputVerifier::prepare(Call& call, std::size_t slot) {
  Zone* const zones = zones_.as<Zone>() + slot * kMaxZones;
  if (call.place.zones.size() > kMaxZones) return make_error(ErrorCode::kInternal, "too many zones in one place");
  std::copy(call.place.zones.begin(), call.place.zones.end(), zones);
  if (!call.place.zones.empty()) {
    RIDGE_CHECK_OK(run("ridge_fill_zones", kDeviceRedZone / 4,
                       {CheckLaunch::pointer(zones), call.canary_key, std::uint64_t{call.nan}},
                       static_cast<std::uint32_t>(call.place.zones.size())));
  }
  for (std::size_t i = 0; i < call.place.operands.size(); ++i) {
    const TensorView& view = call.place.operands[i];
    const ops::DeviceMatrix matrix = ops::device_matrix(view);
    if (matrix.rows * matrix.columns == 0) continue;
    const std::int64_t bytes = element_bytes(view);
    if (pitch_gap(matrix) > 0 && matrix.rows > 1) {
      RIDGE_CHECK_OK(
          run("ridge_fill_padding", (matrix.rows - 1) * pitch_gap(matrix) * bytes,
              {matrix.data, CheckLaunch::number(matrix.rows - 1), CheckLaunch::number(matrix.columns * bytes),
               CheckLaunch::number(matrix.pitch * bytes), call.canary_key + 64 + i, std::uint64_t{call.nan}}));
    }
    if (!filled(call.problem->operands[i]) || call.problem->operands[i].read_write) continue;
    RIDGE_CHECK_OK(fill(call, i, matrix));
  }
  RIDGE_CHECK_OK(poison(call));
  for (std::size_t i = 0; i < call.place.operands.size(); ++i) {
    if (filled(call.problem->operands[i])) RIDGE_CHECK_OK(plant(call, i, call.place.operands[i]));
  }
  auto* const hashes = static_cast<std::uint64_t*>(device_hashes_.data()) + slot * kMostOperands;
  RIDGE_CHECK_OK(device::cuda::fill_bytes(hashes, 0, kMostOperands * sizeof(std::uint64_t), stream_));
  for (std::size_t i = 0; i < call.place.operands.size(); ++i) {
    const ops::DeviceMatrix matrix = ops::device_matrix(call.place.operands[i]);
    if (call.problem->operands[i].output || matrix.rows * matrix.columns == 0) continue;
    RIDGE_CHECK_OK(run("ridge_hash", matrix.rows * matrix.columns / 8 + 1,
                       {matrix, call.hash_keys[0], call.hash_keys[1], CheckLaunch::pointer(hashes + i)}));
  }
  return device::cuda::copy_to_host(hashes_before_.as<std::uint64_t>() + slot * kMostOperands, hashes,
                                    kMostOperands * sizeof(std::uint64_t), stream_);
}

// Operands after the call, then the old content of each read_write one, made again from its seed.
Result<std::vector<TensorView>> OutputVerifier::after(const Call& call) {
  std::vector<TensorView> views = call.place.operands;
  auto* next = static_cast<unsigned char*>(old_content_.data());
  for (std::size_t i = 0; i < call.problem->operands.size(); ++i) {
    const ops::OperandSpec& spec = call.problem->operands[i];
    if (!spec.read_write) continue;
    TensorView old = operand_views(*call.problem, RowPadding::kNone)[i];
    old.data = next;
    const ops::DeviceMatrix matrix = ops::device_matrix(old);
    next += (size_bytes(spec.dtype, spec.element_count()) + 255) / 256 * 256;
    if (matrix.rows * matrix.columns > 0) {
      RIDGE_CHECK_OK(fill(call, i, matrix));
      RIDGE_CHECK_OK(plant(call, i, old));
    }
    views.push_back(old);
  }
  return views;
}

Status OutputVerifier::enqueue_checks(const Call& call, std::size_t slot, std::uint64_t projection_seed) {
  Report* const report = static_cast<Report*>(device_reports_.data()) + slot;
  if (!call.place.zones.empty()) {
    RIDGE_CHECK_OK(run("ridge_check_zones", kDeviceRedZone / 4,
                       {CheckLaunch::pointer(zones_.as<Zone>() + slot * kMaxZones), call.canary_key,
                        std::uint64_t{call.nan}, CheckLaunch::pointer(&report->zones)},
                       static_cast<std::uint32_t>(call.place.zones.size())));
  }
  for (std::size_t i = 0; i < call.place.operands.size(); ++i) {
    const TensorView& view = call.place.operands[i];
    const ops::DeviceMatrix matrix = ops::device_matrix(view);
    if (matrix.rows * matrix.columns == 0) continue;
    const std::int64_t bytes = element_bytes(view);
    if (pitch_gap(matrix) > 0 && matrix.rows > 1) {
      RIDGE_CHECK_OK(run("ridge_check_padding", (matrix.rows - 1) * pitch_gap(matrix) * bytes,
                         {matrix.data, CheckLaunch::number(matrix.rows - 1),
                          CheckLaunch::number(matrix.columns * bytes), CheckLaunch::number(matrix.pitch * bytes),
                          call.canary_key + 64 + i, std::uint64_t{call.nan}, CheckLaunch::pointer(&report->padding)}));
    }
    if (call.problem->operands[i].output) {
      RIDGE_CHECK_OK(run("ridge_count", matrix.rows * matrix.columns / 4 + 1,
                         {matrix, call.poison[i], CheckLaunch::pointer(&report->counts[i])}));
    } else {
      RIDGE_CHECK_OK(run("ridge_hash", matrix.rows * matrix.columns / 8 + 1,
                         {matrix, call.hash_keys[0], call.hash_keys[1], CheckLaunch::pointer(&report->hashes[i])}));
    }
  }
  if (call.specials || !defences_.on(Defence::kProjection)) return ok_status();
  RIDGE_TRY(operands, after(call));
  RIDGE_CHECK_OK(device::cuda::fill_bytes(scratch_.data(), 0, check_.scratch_bytes(*call.problem), stream_));
  for (const CheckLaunch& launch : check_.projection(
           {*call.problem, operands, projection_seed, scratch_.data(), &report->projection, call.scalars})) {
    RIDGE_CHECK_OK(checks_.run(launch, stream_));
  }
  return ok_status();
}

Verdict OutputVerifier::judge(std::vector<Call>& calls, Depth depth, measure::Coin& coin, Verification& into) {
  const std::size_t bytes = calls.size() * sizeof(Report);
  RIDGE_CHECK_OK(device::cuda::copy_to_device(device_reports_.data(), blank_.data(), bytes, stream_));
  for (std::size_t i = 0; i < calls.size(); ++i) RIDGE_CHECK_OK(enqueue_checks(calls[i], i, secrets_.next()));
  RIDGE_CHECK_OK(device::cuda::copy_to_host(reports_.data(), device_reports_.data(), bytes, stream_));
  RIDGE_CHECK_OK(device::cuda::synchronize(stream_));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const bool drawn = defences_.on(Defence::kFullDraw) && coin.below(defences_.full_draw_one_in) == 0;
    const Report report = reports_.as<Report>()[i];
    RIDGE_CHECK_OK(judge_one(calls[i], report, i, drawn ? Depth::kFull : depth, into));
  }
  return passed();
}

Verdict OutputVerifier::canary_damage(const Call& call, const Report& report) const {
  if (report.zones.count != 0 && defences_.on(Defence::kRedZone)) {
    const auto zone = static_cast<std::size_t>(report.zones.first >> 40);
    const std::int64_t byte = report.zones.first & ((std::int64_t{1} << 40) - 1);
    const std::size_t before = call.place.after[zone];
    const std::string where =
        before < call.problem->operands.size()
            ? fmt::format("{} bytes past the end of {}", byte + 1, call.problem->operands[before].name)
        : before == call.problem->operands.size()
            ? fmt::format("{} bytes past the end of a workspace", byte + 1)
            : fmt::format("{} bytes before the start of {}", call.place.zones[zone].bytes - byte,
                          call.problem->operands.front().name);
    return Failure{Outcome::kWrong,
                   fmt::format("wrote {} (byte 0x{:02x} became 0x{:02x}; {} bytes in all)", where,
                               report.zones.expected, report.zones.found, report.zones.count),
                   Defence::kRedZone};
  }
  if (report.padding.count != 0 && defences_.on(Defence::kRowPadding)) {
    return Failure{
        Outcome::kWrong,
        fmt::format("wrote into the padding between rows, {} bytes from the start of an operand; {} bytes in all",
                    report.padding.first, report.padding.count),
        Defence::kRowPadding};
  }
  return passed();
}

Verdict OutputVerifier::changed_input(const Call& call, const Report& report, std::size_t slot) {
  if (!defences_.on(Defence::kInputIntact)) return passed();
  const std::uint64_t* const before = hashes_before_.as<std::uint64_t>() + slot * kMostOperands;
  for (std::size_t i = 0; i < call.problem->operands.size(); ++i) {
    const ops::OperandSpec& spec = call.problem->operands[i];
    if (spec.output || before[i] == report.hashes[i]) continue;
    std::string where;
    if (!call.specials && !call.replaced && spec.fill.rule == ops::Fill::Rule::kNumbers) {
      Damage* const damage = &static_cast<Report*>(device_reports_.data())[slot].inputs;
      const ops::DeviceMatrix matrix = ops::device_matrix(call.place.operands[i]);
      RIDGE_CHECK_OK(run("ridge_find_change", matrix.rows * matrix.columns / 4 + 1,
                         {matrix, CheckLaunch::number(static_cast<std::int64_t>(call.family)), call.seeds[i],
                          CheckLaunch::pointer(damage)}));
      RIDGE_TRY(found, peek<Damage>(damage));
      if (found.count > 0) where = index_text(call.place.operands[i], found.first);
    }
    return Failure{Outcome::kWrong, fmt::format("changed its input {}{}", spec.name, where), Defence::kInputIntact};
  }
  return passed();
}

Verdict OutputVerifier::judge_one(const Call& call, const Report& report, std::size_t slot, Depth depth,
                                  Verification& into) {
  RIDGE_CHECK_OK(canary_damage(call, report));
  RIDGE_CHECK_OK(changed_input(call, report, slot));
  bool suspicious = depth == Depth::kFull || call.specials;
  for (std::size_t i = 0; i < call.problem->operands.size(); ++i) {
    const ops::OperandSpec& spec = call.problem->operands[i];
    if (!spec.output) continue;
    const std::uint64_t left = defences_.on(Defence::kPoison) && poison_tells(call, spec) ? report.counts[i][0] : 0;
    if (left != 0 && left == static_cast<std::uint64_t>(spec.element_count())) {
      return Failure{Outcome::kWrong, spec.name + " was not written at all", Defence::kPoison};
    }
    suspicious = suspicious || left != 0 || report.counts[i][1] != 0;
  }
  const ops::ProjectionResult& seen = report.projection;
  const double worst = float_of_key(seen.worst), mean_square = seen.count > 0 ? seen.square_sum / seen.count : 0;
  const bool rough = mean_square > square_limit(seen.count) && defences_.on(Defence::kRms);
  const bool off = worst > 1.0 || rough || seen.not_finite != 0;
  if (off || suspicious) RIDGE_CHECK_OK(compare_all(call, into));
  ++into.calls;
  // A full comparison has the last word: its limits are each element's own, those of a projection of random data.
  if (depth == Depth::kFull) return passed();
  // An overflow that the reference shares is right; a finite output whose projection is off is not.
  if (off && seen.not_finite == 0) {
    return Failure{
        Outcome::kWrong,
        fmt::format("a secret projection of the output is off: the worst row by {:.3g} times what is allowed, all rows "
                    "by {:.3g} times the error of the ideal kernel",
                    worst, std::sqrt(mean_square)),
        Defence::kProjection};
  }
  into.rms_error_ratio = std::max(into.rms_error_ratio, std::sqrt(mean_square));
  return passed();
}

Verdict OutputVerifier::compare_all(const Call& call, Verification& into) {
  RIDGE_TRY(operands, after(call));
  Verdict verdict = passed();
  for (std::size_t i = 0; i < call.problem->operands.size() && verdict.ok(); ++i) {
    if (call.problem->operands[i].output) verdict = compare_output(call, i, operands, into);
  }
  if (!verdict && verdict.error().outcome == Outcome::kHarnessFault) return verdict;
  // The right answer does not stay where a later kernel could find it.
  RIDGE_CHECK_OK(device::cuda::fill_bytes(reference_.data(), 0xff, reference_.bytes(), stream_));
  RIDGE_CHECK_OK(device::cuda::fill_bytes(scratch_.data(), 0xff, scratch_.bytes(), stream_));
  return verdict;
}

std::size_t OutputVerifier::list_predictors(const Call& call) {
  auto* const list = predictors_.as<ops::DeviceMatrix>();
  std::size_t count = 0;
  for (std::size_t i = 0; i < call.place.operands.size() && count < 4; ++i) {
    if (!call.problem->operands[i].output) list[count++] = ops::device_matrix(call.place.operands[i]);
  }
  if (call.previous) list[count++] = ops::device_matrix(*call.previous);
  return count;
}

Result<OutputVerifier::Compared> OutputVerifier::compare_rows(const TensorView& output, std::int64_t first,
                                                              std::int64_t rows, double constant,
                                                              std::size_t predictors) {
  const ops::DeviceMatrix matrix = ops::device_matrix(output);
  auto* const values = static_cast<double*>(reference_.data());
  const std::int64_t count = rows * matrix.columns;
  RIDGE_CHECK_OK(device::cuda::fill_bytes(compared_.data(), 0, sizeof(Compared), stream_));
  RIDGE_CHECK_OK(run(
      "ridge_compare", count,
      {matrix, CheckLaunch::number(first * matrix.columns), CheckLaunch::number(count), CheckLaunch::pointer(values),
       CheckLaunch::pointer(values + chunk_), CheckLaunch::pointer(values + 2 * chunk_),
       CheckLaunch::pointer(values + 3 * chunk_), CheckLaunch::real(constant), CheckLaunch::pointer(predictors_.data()),
       CheckLaunch::number(static_cast<std::int64_t>(predictors)), CheckLaunch::pointer(compared_.data()),
       CheckLaunch::pointer(bias_.data())}));
  return peek<Compared>(compared_.data());
}

Verdict OutputVerifier::compare_output(const Call& call, std::size_t index, const std::vector<TensorView>& operands,
                                       Verification& into) {
  const TensorView& output = call.place.operands[index];
  const ops::DeviceMatrix matrix = ops::device_matrix(output);
  const std::int64_t count = matrix.rows * matrix.columns;
  if (count == 0) return passed();
  auto* const values = static_cast<double*>(reference_.data());
  const std::size_t predictors = list_predictors(call);
  RIDGE_CHECK_OK(device::cuda::fill_bytes(bias_.data(), 0, sizeof(numerics::BiasSums), stream_));
  const std::int64_t step = std::clamp<std::int64_t>(chunk_ / matrix.columns, 1, kMaxRows);
  Compared all;
  Worst worst;
  double constant = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t first = 0; first < matrix.rows; first += step) {
    const std::int64_t rows = std::min(step, matrix.rows - first);
    for (const CheckLaunch& launch :
         check_.reference({*call.problem, operands, index, first, rows, values, values + chunk_, values + 2 * chunk_,
                           values + 3 * chunk_, call.scalars, scratch_.data()})) {
      RIDGE_CHECK_OK(checks_.run(launch, stream_));
    }
    if (first == 0) {
      RIDGE_TRY(some, peek<double>(values + static_cast<std::int64_t>(
                                                call.canary_key % static_cast<std::uint64_t>(rows * matrix.columns))));
      constant = some;
    }
    RIDGE_TRY(part, compare_rows(output, first, rows, constant, predictors));
    all.wrong += part.wrong;
    all.mismatches += part.mismatches;
    all.finite += part.finite;
    all.error_squares += part.error_squares;
    all.value_squares += part.value_squares;
    all.normal_squares += part.normal_squares;
    for (std::size_t p = 0; p < 8; ++p) all.predicted_wrong[p] += part.predicted_wrong[p];
    if (float_of_key(part.worst) <= worst.ratio) continue;
    const std::int64_t at = static_cast<std::int64_t>(part.worst & 0xffffffffu);
    worst.ratio = float_of_key(part.worst);
    worst.element = first * matrix.columns + at;
    RIDGE_TRY(value, peek<double>(values + at));
    RIDGE_TRY(allowed, peek<double>(values + chunk_ + at));
    worst.value = value;
    worst.allowed = allowed;
  }
  into.elements += count;
  ++into.compared;
  into.max_error_ratio = std::max(into.max_error_ratio, worst.ratio);
  const double finite = static_cast<double>(all.finite), mean_square = finite > 0 ? all.normal_squares / finite : 0;
  into.rms_error_ratio = std::max(into.rms_error_ratio, std::sqrt(mean_square));
  const double snr = all.error_squares > 0 ? 10.0 * std::log10(all.value_squares / all.error_squares) : 300.0;
  into.snr_db = into.calls == 0 ? snr : std::min(into.snr_db, snr);
  const std::uint64_t bounded = all.wrong - all.mismatches;
  if ((all.mismatches != 0 && defences_.on(Defence::kNonfinite)) ||
      (bounded != 0 && defences_.on(Defence::kElementBound))) {
    RIDGE_TRY(failure, describe_wrong(call, index, worst, all.wrong, all.mismatches, count));
    return failure;
  }
  const std::string& name = call.problem->operands[index].name;
  if (mean_square > square_limit(finite) && defences_.on(Defence::kRms)) {
    return Failure{
        Outcome::kWrong,
        fmt::format(
            "the errors of {} are {:.3g} times those of the ideal kernel of the declared accumulation type; {:.3g} "
            "times are allowed (RMS over {} elements): a shorter type, or terms left out",
            name, std::sqrt(mean_square), std::sqrt(square_limit(finite)), all.finite),
        Defence::kRms};
  }
  RIDGE_TRY(bias, leaning(finite));
  if (bias.leans() && defences_.on(Defence::kBias)) {
    return Failure{
        Outcome::kWrong,
        fmt::format("{}: errors lean to one side by {:.3g} of the ideal kernel's RMS error, {:.3g} is allowed: "
                    "truncation instead of rounding",
                    name, bias.mean, bias.limit),
        Defence::kBias};
  }
  // What computes nothing must not pass: zeros, a constant, a copy.
  std::string trivial;
  for (std::size_t p = 0; p < 2 + predictors && trivial.empty(); ++p) {
    if (p == 1 && count < 64) continue;
    if (all.predicted_wrong[p] >= std::max<std::uint64_t>(1, static_cast<std::uint64_t>(count) / 100)) continue;
    const bool previous = p == 1 + predictors && call.previous;
    trivial = fmt::format("{} would pass for {}",
                          p == 0     ? "zeros"
                          : p == 1   ? "a constant"
                          : previous ? "the output of the call before"
                                     : "a copy of an input",
                          name);
  }
  into.evidence.add(index, trivial);
  into.uninformative = into.evidence.missing();
  return passed();
}

Result<numerics::BiasVerdict> OutputVerifier::leaning(double finite) {
  const auto sums = std::make_unique<numerics::BiasSums>();
  RIDGE_CHECK_OK(device::cuda::copy_to_host(sums.get(), bias_.data(), sizeof(numerics::BiasSums), stream_));
  RIDGE_CHECK_OK(device::cuda::synchronize(stream_));
  sums->finite = finite;
  return numerics::bias_verdict(*sums);
}

Result<Failure> OutputVerifier::describe_wrong(const Call& call, std::size_t index, const Worst& worst,
                                               std::uint64_t wrong, std::uint64_t mismatches, std::int64_t count) {
  const TensorView& output = call.place.operands[index];
  const std::string& name = call.problem->operands[index].name;
  if (call.previous && call.previous->shape == output.shape) {
    RIDGE_TRY(different, differences(output, *call.previous));
    if (different == 0) {
      return Failure{Outcome::kWrong, fmt::format("{} holds the previous call's result: stale output", name),
                     Defence::kFreshInputs};
    }
  }
  RIDGE_CHECK_OK(
      run("ridge_peek", 1,
          {ops::device_matrix(output), CheckLaunch::number(worst.element), CheckLaunch::pointer(compared_.data())}));
  struct Element {
    double value;
    std::uint64_t bits;
  };
  RIDGE_TRY(got, peek<Element>(compared_.data()));
  const bool poison = got.bits == call.poison[index] && defences_.on(Defence::kPoison);
  return Failure{Outcome::kWrong,
                 fmt::format("{}{} = {:.9g}, expected {:.9g} +- {:.3g}{}; {} of {} elements are wrong", name,
                             index_text(output, worst.element), got.value, worst.value, worst.allowed,
                             poison ? " (never written)" : "", wrong, count),
                 poison            ? Defence::kPoison
                 : mismatches != 0 ? Defence::kNonfinite
                                   : Defence::kElementBound};
}

Result<std::int64_t> OutputVerifier::differences(const TensorView& a, const TensorView& b) {
  Damage* const damage = &static_cast<Report*>(device_reports_.data())->inputs;
  RIDGE_CHECK_OK(device::cuda::copy_to_device(damage, &blank_.as<Report>()->inputs, sizeof(Damage), stream_));
  const ops::DeviceMatrix matrix = ops::device_matrix(a);
  if (matrix.rows * matrix.columns > 0) {
    RIDGE_CHECK_OK(run("ridge_differences", matrix.rows * matrix.columns,
                       {matrix, ops::device_matrix(b), CheckLaunch::pointer(damage)}));
  }
  RIDGE_TRY(found, peek<Damage>(damage));
  return static_cast<std::int64_t>(found.count);
}

template <class T>
Result<T> OutputVerifier::peek(const void* device_source) {
  T value;
  RIDGE_CHECK_OK(device::cuda::copy_to_host(&value, device_source, sizeof(T), stream_));
  RIDGE_CHECK_OK(device::cuda::synchronize(stream_));
  return value;
}

}  // namespace ridge::evaluate::cuda
