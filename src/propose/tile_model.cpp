#include "propose/tile_model.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "stats/summary.h"

namespace ridge::propose {
namespace {

constexpr double kNarrow = 31, kEpilogue = 47, kAreaOnItsWay = 80000;

double value_or(const std::map<std::string, double>& values, const std::string& name, double otherwise) {
  const auto found = values.find(name);
  return found == values.end() ? otherwise : found->second;
}

// Of one case: the share of the multiprocessors' time in which they compute what is asked for.
double quantisation(const Tiles& tiles, const Gpu& gpu, const std::map<std::string, double>& sizes, double& waves) {
  double count = 1, blocks = tiles.split, work = 1, area = 1;
  for (const auto& [name, tile] : tiles.tile) {
    const double size = std::max(1.0, value_or(sizes, name, 1)), side = value_or(tiles.cluster, name, 1);
    count *= std::ceil(size / (tile * side));
    blocks *= side;
    work *= size;
    area *= tile;
  }
  waves = std::ceil(count / std::max(1.0, std::floor(gpu.multiprocessors / blocks)));
  return std::min(1.0, work / (waves * gpu.multiprocessors * area / tiles.split));
}

double reuse_of(const Tiles& tiles) {
  double inverse = 0;
  for (const auto& [name, tile] : tiles.tile) inverse += 1 / tile;
  return 1 / inverse;
}

double slices_of(const Tiles& tiles) {
  if (tiles.stages <= 0) return 1;
  double area = 1;
  for (const auto& [name, tile] : tiles.tile) area *= tile;
  return std::pow(std::min(1.0, tiles.stages * area / kAreaOnItsWay), 0.8);
}

}  // namespace

Tiles tiles_of(const Space& space, const Config& config) {
  Tiles tiles;
  for (const record::Tunable& tunable : space.declared().tunables) {
    if (!space.active(tunable, config)) continue;
    const std::size_t gap = tunable.model.find(' ');
    const std::string role = tunable.model.substr(0, gap);
    const std::string of = gap == std::string::npos ? std::string() : tunable.model.substr(gap + 1);
    const auto value = static_cast<double>(config.at(tunable.name));
    if (role == "tile") tiles.tile[of] = std::max(1.0, value);
    if (role == "cluster") tiles.cluster[of] = std::max(1.0, value);
    if (role == "split") tiles.split = std::max(1.0, value);
    if (role == "overlap") tiles.overlap = tiles.overlap || config.at(tunable.name) != tunable.default_value;
    if (role == "stages") {
      tiles.stages = value;
      tiles.depth = of;
    }
  }
  return tiles;
}

Issue tile_fraction(const Tiles& tiles, const Gpu& gpu) {
  if (tiles.tile.empty() || gpu.cases.empty()) return {1.0, "nothing that the tile model knows"};
  const double reuse = reuse_of(tiles), step = 1 + std::pow(kNarrow / reuse, 4), slices = slices_of(tiles);
  double worst = 2, worst_waves = 0;
  std::vector<double> fractions;
  for (const auto& sizes : gpu.cases) {
    double waves = 0;
    const double used = quantisation(tiles, gpu, sizes, waves);
    const double depth = std::max(1.0, value_or(sizes, tiles.depth, 4096) / tiles.split);
    const double epilogue = (tiles.overlap && waves > 1 ? 1 : 2) * kEpilogue / depth;
    fractions.push_back(std::max(1e-6, used * slices / (step * (1 + epilogue))));
    if (used < worst) {
      worst = used;
      worst_waves = waves;
    }
  }
  const double fraction = stats::geomean(fractions);
  if (worst < 1 / step) {
    return {fraction, fmt::format("multiprocessors without a tile: {:.0f} % busy in {:.0f} wave{} of the worst shape",
                                  100 * worst, worst_waves, worst_waves == 1 ? "" : "s")};
  }
  return {fraction, fmt::format("what shared memory brings to a tile that uses each element {:.0f} times", reuse)};
}

}  // namespace ridge::propose
