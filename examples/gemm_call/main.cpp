// The smallest use of the operator library: C = A * B, and an error that says what to do.
#include <ridge/dispatch.h>
#include <ridge/ops/gemm.h>

#include <cstdio>
#include <vector>

int main() {
  constexpr std::int64_t m = 3, n = 2, k = 4;
  std::vector<float> a(m * k, 1.0f), b(k * n, 2.0f), c(m * n);
  ridge::GemmArgs args{.a = ridge::TensorView::contiguous(a.data(), ridge::DType::kF32, {m, k}),
                       .b = ridge::TensorView::contiguous(b.data(), ridge::DType::kF32, {k, n}),
                       .c = ridge::TensorView::contiguous(c.data(), ridge::DType::kF32, {m, n})};
  const ridge::Status done = ridge::gemm(args, ridge::Stream::cpu());
  if (!done) {
    std::printf("%s\n", done.error().text().c_str());
    return 1;
  }
  std::printf("c[0] = %g, by %s\n", static_cast<double>(c[0]), ridge::dispatch::last_used("gemm").c_str());

  args.b = ridge::TensorView::contiguous(b.data(), ridge::DType::kF32, {n, k});
  const ridge::Status refused = ridge::gemm(args, ridge::Stream::cpu());
  std::printf("%s\n", refused ? "unexpected success" : refused.error().text().c_str());
  return c[0] == 8.0f && !refused ? 0 : 1;
}
