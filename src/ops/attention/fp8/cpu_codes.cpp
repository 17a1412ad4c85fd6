// The tiles of attention's cpu_tiles, to which codes are fp32 as bf16 and f16 are: sums and weights stay in fp32.
#include "ops/attention/fp8/fp8.h"

namespace ridge::ops::attention_fp8 {
namespace {

Status run(const Problem& problem, const Arguments& operands, const Stream& stream) {
  attention::TileOperands views;
  views.q = operands[kQ];
  views.k = operands[kK];
  views.v = operands[kV];
  views.o = operands[kO];
  views.log_sum_exp = operands[kLogSumExp];
  views.q_scale = operands[kQScale];
  views.k_scale = operands[kKScale];
  views.v_scale = operands[kVScale];
  return attention::run_tiles(shape_of(problem, operands), {}, views, stream);
}

}  // namespace

Implementation cpu_codes() {
  Implementation own;
  own.name = "cpu_codes";
  own.summary = "the tiles of attention's cpu_tiles, codes widened to fp32";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::attention_fp8
