// Rows that belong to groups: offsets [groups + 1] say where each group begins and where the last ends. They lie in
// memory of the device; this reads them on a processor, and cuts matrices into the parts of groups.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ops/fill.h"
#include "ops/op.h"
#include "record/param.h"
#include "ridge/dtype.h"
#include "ridge/result.h"
#include "ridge/tensor.h"

namespace ridge::ops {

inline constexpr DType kOffsetTypes[] = {DType::kI32, DType::kI64};  // by the value of a parameter `offsets`

// The parameter of a case that says how its rows spread over the groups (record/group_load.h), and what the offsets
// hold for it, by its value: multiples of `step`. Where it says nothing, some rows are of no group.
record::ParamInfo load_param();
Fill offsets_fill(std::int64_t load, std::int64_t rows, std::int64_t step = 1);

// Of a case whose rows are found by an index: as many of the operand as of the call where it says nothing.
void complete_sources(record::Case& requested, bool gathers);
// The index of `rows` rows of an operand that has `sources`; a row in so many is one of zeros.
OperandSpec index_operand(std::int64_t rows, std::int64_t sources);

// A contiguous vector of one of these types.
std::vector<std::int64_t> read_offsets(const TensorView& offsets);
// An error where they fall or leave 0 .. rows.
Status check_offsets(std::string_view op, std::span<const std::int64_t> offsets, std::int64_t rows);
// Of an index that finds the rows of `operand`, which has `sources`: an error where a row of a group is from there on.
// Negative ones stand for rows of zeros.
Status check_index(std::string_view op, const TensorView& index, std::span<const std::int64_t> offsets,
                   std::int64_t sources, std::string_view operand);
// Of what a caller gives: at least one group, and an offset more.
Status check_group_count(std::string_view op, std::int64_t groups, std::int64_t offsets);

// Rows, or columns, first .. last of a matrix, elements of a vector; `index` of a stack of matrices, or of vectors.
TensorView rows_of(const TensorView& matrix, std::int64_t first, std::int64_t last);
TensorView columns_of(const TensorView& matrix, std::int64_t first, std::int64_t last);
TensorView matrix_of(const TensorView& stack, std::int64_t index);

}  // namespace ridge::ops
