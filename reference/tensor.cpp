// SPDX-License-Identifier: Apache-2.0
// Where the elements of an operand lie, reading them in logical order, and watching the bytes between them.

#include "reference/tensor.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "reference/format_bits.hpp"
#include "reference/philox.hpp"
#include "reference/rows.hpp"

namespace assay {

namespace {

constexpr std::int64_t parallel_from = 1 << 16;  // elements; below it a thread team costs more than it saves

std::string describe(const Operand& o) {
  return "operand " + (o.role.empty() ? std::string("?") : o.role);
}

/// Columns are read tile by tile through a small buffer: contiguous reads along the rows' own order when rows lie side by
/// side (column-major), contiguous writes along the output row.
template <class Word>
void copy_strided_rows(const std::byte* const* starts, std::int64_t rows, std::int64_t length, std::int64_t stride,
                       std::byte* out) {
  constexpr std::int64_t tile_rows = 16, tile_columns = 64;
  Word tile[tile_rows][tile_columns];
  const std::int64_t step = stride * static_cast<std::int64_t>(sizeof(Word));
  for (std::int64_t i0 = 0; i0 < rows; i0 += tile_rows) {
    const std::int64_t ni = std::min(tile_rows, rows - i0);
    for (std::int64_t j0 = 0; j0 < length; j0 += tile_columns) {
      const std::int64_t nj = std::min(tile_columns, length - j0);
      for (std::int64_t j = 0; j < nj; ++j)
        for (std::int64_t i = 0; i < ni; ++i) std::memcpy(&tile[i][j], starts[i0 + i] + (j0 + j) * step, sizeof(Word));
      for (std::int64_t i = 0; i < ni; ++i)
        std::memcpy(out + ((i0 + i) * length + j0) * static_cast<std::int64_t>(sizeof(Word)), tile[i],
                    static_cast<std::size_t>(nj) * sizeof(Word));
    }
  }
}

template <DType t, class Word>
void decode_packed(const std::byte* bits, std::int64_t count, double* out) {
  constexpr const Format& f = formats[static_cast<std::size_t>(t)];
  for (std::int64_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, bits + i * static_cast<std::int64_t>(sizeof word), sizeof word);
    out[i] = std::bit_cast<double>(widen_to_f64(f, word));
  }
}

void decode_packed(DType t, const std::byte* bits, std::int64_t count, double* out) {
  switch (t) {
    case DType::f32:
      return decode_packed<DType::f32, std::uint32_t>(bits, count, out);
    case DType::f64:
      return decode_packed<DType::f64, std::uint64_t>(bits, count, out);
    case DType::bf16:
      return decode_packed<DType::bf16, std::uint16_t>(bits, count, out);
    case DType::f16:
      return decode_packed<DType::f16, std::uint16_t>(bits, count, out);
    case DType::e4m3:
      return decode_packed<DType::e4m3, std::uint8_t>(bits, count, out);
    case DType::e5m2:
      return decode_packed<DType::e5m2, std::uint8_t>(bits, count, out);
    case DType::i8:
      return decode_packed<DType::i8, std::uint8_t>(bits, count, out);
    case DType::i32:
      return decode_packed<DType::i32, std::uint32_t>(bits, count, out);
    case DType::tf32:
      static_cast<void>(stored_bits(t));  // throws
  }
}

/// Elements of the allocation that belong to an operand: runs of `length`, by ascending start; runs may overlap.
struct Runs {
  std::int64_t length = 1;
  std::vector<std::int64_t> starts;
};

Runs runs_of(const Operand& o) {
  Runs runs;
  if (element_count(o) == 0) return runs;
  struct Axis {
    std::int64_t extent, stride;
  };
  std::vector<Axis> axes;
  std::int64_t origin = o.offset;
  for (std::size_t a = 0; a < o.dims.size(); ++a) {
    if (o.dims[a] == 1 || o.strides[a] == 0) continue;
    if (o.strides[a] < 0) origin += (o.dims[a] - 1) * o.strides[a];
    axes.push_back({o.dims[a], std::abs(o.strides[a])});
  }
  std::sort(axes.begin(), axes.end(), [](const Axis& x, const Axis& y) { return x.stride < y.stride; });
  std::size_t inner = 0;  // axes that together form one contiguous run
  while (inner < axes.size() && axes[inner].stride == runs.length) runs.length *= axes[inner++].extent;

  runs.starts.push_back(origin);
  for (std::size_t a = axes.size(); a-- > inner;) {  // widest stride first: starts stay ascending when axes nest
    std::vector<std::int64_t> next;
    next.reserve(runs.starts.size() * static_cast<std::size_t>(axes[a].extent));
    for (const std::int64_t start : runs.starts)
      for (std::int64_t i = 0; i < axes[a].extent; ++i) next.push_back(start + i * axes[a].stride);
    runs.starts = std::move(next);
  }
  if (!std::is_sorted(runs.starts.begin(), runs.starts.end())) std::sort(runs.starts.begin(), runs.starts.end());
  return runs;
}

}  // namespace

std::int64_t element_count(const Operand& o) {
  std::int64_t count = 1;
  for (const std::int64_t d : o.dims) count *= d;
  return count;
}

std::int64_t storage_index(const Operand& o, std::int64_t logical) {
  std::int64_t at = o.offset;
  for (std::size_t a = o.dims.size(); a-- > 0;) {
    at += logical % o.dims[a] * o.strides[a];
    logical /= o.dims[a];
  }
  return at;
}

void require_storage(const Operand& o, std::span<const std::byte> storage) {
  if (o.dims.size() != o.strides.size())
    throw std::invalid_argument(describe(o) + " has " + std::to_string(o.dims.size()) + " dims but " +
                                std::to_string(o.strides.size()) + " strides: give one stride per dim");
  const auto needed = static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype);
  if (storage.size() < needed)
    throw std::invalid_argument(describe(o) + " needs " + std::to_string(needed) + " bytes of storage, got " +
                                std::to_string(storage.size()) + ": pass its whole allocation");
  if (element_count(o) == 0) return;
  std::int64_t first = o.offset, last = o.offset;
  for (std::size_t a = 0; a < o.dims.size(); ++a) (o.strides[a] < 0 ? first : last) += (o.dims[a] - 1) * o.strides[a];
  if (first < 0 || last >= storage_elements(o))
    throw std::invalid_argument(describe(o) + " has elements " + std::to_string(first) + " to " + std::to_string(last) +
                                " in an allocation of " + std::to_string(storage_elements(o)) +
                                " elements: its strides and span disagree");
}

Rows rows_of(const Operand& o) {
  const std::int64_t count = element_count(o);
  if (count == 0) return {};
  const std::int64_t length = o.dims.empty() ? 1 : o.dims.back();
  return {count / length, length};
}

std::int64_t rows_per_block(const Operand& o) {
  constexpr std::int64_t budget_bytes = 1 << 21;
  const std::int64_t row_bytes = std::max<std::int64_t>(rows_of(o).length, 1) * static_cast<std::int64_t>(size_bytes(o.dtype));
  return std::clamp<std::int64_t>(budget_bytes / row_bytes, 1, 64);
}

void copy_rows(const Operand& o, std::span<const std::byte> storage, std::int64_t first, std::int64_t count, std::byte* out) {
  const std::int64_t length = rows_of(o).length;
  const std::int64_t stride = o.dims.empty() ? 1 : o.strides.back();
  const auto size = static_cast<std::int64_t>(size_bytes(o.dtype));
  std::vector<const std::byte*> starts(static_cast<std::size_t>(count));
  for (std::int64_t r = 0; r < count; ++r)
    starts[static_cast<std::size_t>(r)] = storage.data() + storage_index(o, (first + r) * length) * size;
  if (stride == 1) {
    for (std::int64_t r = 0; r < count; ++r)
      std::memcpy(out + r * length * size, starts[static_cast<std::size_t>(r)], static_cast<std::size_t>(length * size));
    return;
  }
  switch (size) {
    case 1:
      return copy_strided_rows<std::uint8_t>(starts.data(), count, length, stride, out);
    case 2:
      return copy_strided_rows<std::uint16_t>(starts.data(), count, length, stride, out);
    case 4:
      return copy_strided_rows<std::uint32_t>(starts.data(), count, length, stride, out);
    default:
      return copy_strided_rows<std::uint64_t>(starts.data(), count, length, stride, out);
  }
}

std::vector<double> gather(const Operand& o, std::span<const std::byte> storage) {
  require_storage(o, storage);
  std::vector<double> values(static_cast<std::size_t>(element_count(o)));
  const Rows rows = rows_of(o);
  const std::int64_t block = rows_per_block(o);
#pragma omp parallel if (std::ssize(values) >= parallel_from)
  {
    std::vector<std::byte> packed(static_cast<std::size_t>(std::min(block, rows.count) * rows.length) * size_bytes(o.dtype));
#pragma omp for schedule(static)
    for (std::int64_t first = 0; first < rows.count; first += block) {
      const std::int64_t count = std::min(block, rows.count - first);
      copy_rows(o, storage, first, count, packed.data());
      decode_packed(o.dtype, packed.data(), count * rows.length, values.data() + first * rows.length);
    }
  }
  return values;
}

std::vector<std::byte> dense(const Operand& o, std::span<const std::byte> storage) {
  require_storage(o, storage);
  std::vector<std::byte> out(static_cast<std::size_t>(element_count(o)) * size_bytes(o.dtype));
  if (!out.empty()) copy_rows(o, storage, 0, rows_of(o).count, out.data());
  return out;
}

std::int64_t disturbed_gap_bytes(const Operand& o, std::span<const std::byte> storage, std::byte poison) {
  require_storage(o, storage);
  const auto size = static_cast<std::int64_t>(size_bytes(o.dtype));
  std::int64_t disturbed = 0;
  const auto check = [&](std::int64_t from, std::int64_t to) {  // elements [from, to) are gap
    for (std::int64_t i = from * size; i < to * size; ++i) disturbed += storage[static_cast<std::size_t>(i)] != poison;
  };
  const Runs runs = runs_of(o);
  std::int64_t seen = 0;
  for (const std::int64_t start : runs.starts) {
    check(seen, start);
    seen = start + runs.length;
  }
  check(seen, storage_elements(o));
  return disturbed;
}

std::vector<std::int64_t> sample_rows(std::int64_t rows, std::int64_t count, std::uint64_t seed) {
  constexpr std::uint32_t row_stream = 99;
  std::vector<std::int64_t> chosen;
  if (rows <= count) {
    for (std::int64_t r = 0; r < rows; ++r) chosen.push_back(r);
    return chosen;
  }
  chosen = {0, rows - 1};
  for (std::uint64_t i = 0; std::ssize(chosen) < count; ++i) {
    const auto row = static_cast<std::int64_t>(philox_element(seed, row_stream, i)[0] % static_cast<std::uint64_t>(rows));
    if (std::find(chosen.begin(), chosen.end(), row) == chosen.end()) chosen.push_back(row);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace assay
