// The project's own test and benchmark: rowsum_tool test | rowsum_tool bench CSV SHAPES [--fresh]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "src/rowsum.h"

namespace {

struct Shape {
  std::size_t rows, columns;
};
const std::map<std::string, Shape> kShapes = {{"tall", {1024, 32}}, {"square", {256, 256}}, {"wide", {32, 2048}}};

// In -1..1. A generator of three shifts is enough to be unpredictable and costs little beside what is measured.
std::vector<float> random_matrix(const Shape& shape, unsigned seed) {
  std::uint64_t state = 0x9e3779b97f4a7c15ull ^ (static_cast<std::uint64_t>(seed) << 20);
  std::vector<float> matrix(shape.rows * shape.columns);
  for (float& value : matrix) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    value = static_cast<float>(static_cast<double>(state >> 11) * 0x1p-52 - 1.0);
  }
  return matrix;
}

bool correct(const Shape& shape, const std::vector<float>& in, const std::vector<float>& out) {
  for (std::size_t i = 0; i < shape.rows; ++i) {
    double sum = 0, size = 0;
    for (std::size_t j = 0; j < shape.columns; ++j) {
      sum += in[i * shape.columns + j];
      size += std::fabs(in[i * shape.columns + j]);
    }
    if (!(std::fabs(out[i] - sum) <= 1e-6 * size * std::sqrt(static_cast<double>(shape.columns)) + 1e-30)) return false;
  }
  return true;
}

int test() {
  int passed = 0, failed = 0;
  for (const Shape shape :
       {Shape{1, 1}, Shape{1, 7}, Shape{5, 1}, Shape{3, 1000}, Shape{33, 17}, Shape{0, 4}, Shape{4, 0}}) {
    const std::vector<float> in = random_matrix(shape, 1);
    std::vector<float> out(shape.rows, NAN);
    rowsum(in.data(), shape.rows, shape.columns, out.data());
    ++(correct(shape, in, out) ? passed : failed);
  }
  std::printf("passed=%d failed=%d\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

// Reads all of it, so that it is as warm in the caches whether it is new or was used before: the two kinds of tensor
// may differ in nothing but having been seen, or a fast kernel would look as if it remembered them.
void touch(const std::vector<float>& matrix) {
  float sum = 0;
  for (const float value : matrix) sum += value;
  volatile float kept = sum;
  static_cast<void>(kept);
}

// Median of many timed calls, each checked afterwards: some are a few microseconds, and a busy machine disturbs those.
double seconds_of(const Shape& shape, bool fresh, bool* all_correct) {
  constexpr int kRepeats = 41;
  std::vector<double> times;
  std::vector<float> in = random_matrix(shape, std::random_device{}()), out(shape.rows);
  for (int i = 0; i <= kRepeats; ++i) {
    std::vector<float> drawn = random_matrix(shape, std::random_device{}());
    if (fresh) in.swap(drawn);
    touch(in);
    std::fill(out.begin(), out.end(), NAN);
    const auto before = std::chrono::steady_clock::now();
    rowsum(in.data(), shape.rows, shape.columns, out.data());
    const auto after = std::chrono::steady_clock::now();
    if (i > 0) times.push_back(std::chrono::duration<double>(after - before).count());  // the first one warms up
    *all_correct = *all_correct && correct(shape, in, out);
  }
  std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
  return times[kRepeats / 2];
}

int bench(const char* csv, const std::string& shapes, bool fresh) {
  std::ofstream table(csv);
  table << "label,Check,Forward GB/s,Forward GB/s_stddev,Forward Time (ms),out_snr\r\n";
  bool all = true;
  std::istringstream labels(shapes);
  for (std::string label; std::getline(labels, label, ',');) {
    const Shape shape = kShapes.at(label);
    bool good = true;
    const double seconds = seconds_of(shape, fresh, &good);
    const double bytes = 4.0 * static_cast<double>(shape.rows * shape.columns + shape.rows);
    table << label << ',' << (good ? "PASS" : "FAIL") << ',' << bytes / seconds / 1e9 << ",0," << seconds * 1e3
          << ",nan\r\n";
    all = all && good;
  }
  return all ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "test") == 0) return test();
  if (argc >= 4 && std::strcmp(argv[1], "bench") == 0) return bench(argv[2], argv[3], argc > 4);
  std::fprintf(stderr, "usage: rowsum_tool test | rowsum_tool bench CSV SHAPES [--fresh]\n");
  return 2;
}
