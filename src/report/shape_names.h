// Short names for shapes: what varies among them names a shape, and what they all share is said once.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/report.h"

namespace ridge::report {

class ShapeNames {
 public:
  // Labels are lists like "m=512 n=512 k=512 dtype=f32". When they do not all have the same keys, they stay as they
  // are. Of a single shape the leading numbers are its name.
  explicit ShapeNames(const std::vector<std::string>& labels);

  // "dtype=f32 layout=nn": what all shapes share and their short names leave out; empty when nothing is left out.
  [[nodiscard]] const std::string& shared() const { return shared_; }
  // The text with every label in it replaced by its short name.
  [[nodiscard]] std::string shorten(std::string_view text) const;

 private:
  std::vector<std::pair<std::string, std::string>> names_;  // label, short name; longest label first
  std::string shared_;
};

ShapeNames shape_names(const Model& model);

// The model as a page shows it: short names in place of labels, in every text but sources and logs.
Model with_short_labels(const Model& model, const ShapeNames& names);

}  // namespace ridge::report
