// SPDX-License-Identifier: Apache-2.0
// Where in the output the bad elements lie. The record may come from a damaged file: no index is trusted.
#include "report/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace assay::report {

namespace {

struct Place {
  std::int64_t batch, row, column;
};

struct Layout {
  std::int64_t batches = 0, rows = 0, columns = 0;
  std::vector<Place> bad;
};

/// Empty `bad` when there is nothing to show.
Layout layout(const Record& r) {
  Layout l;
  if (r.output_dims.empty()) return l;
  std::int64_t total = 1;
  for (const std::int64_t d : r.output_dims)
    if (d <= 0 || __builtin_mul_overflow(total, d, &total)) return l;
  l.columns = r.output_dims.back();
  l.rows = r.output_dims.size() > 1 ? r.output_dims[r.output_dims.size() - 2] : 1;
  l.batches = total / l.rows / l.columns;
  for (const std::int64_t i : r.bad_indices)
    if (i >= 0 && i < total) l.bad.push_back({i / l.columns / l.rows, i / l.columns % l.rows, i % l.columns});
  return l;
}

std::string range(const Layout& l, std::int64_t Place::*member, std::string_view one, std::string_view many) {
  const auto [low, high] =
      std::minmax_element(l.bad.begin(), l.bad.end(), [&](const Place& a, const Place& b) { return a.*member < b.*member; });
  if ((*low).*member == (*high).*member) return fmt::format("{} {}", one, (*low).*member);
  return fmt::format("{} {} to {}", many, (*low).*member, (*high).*member);
}

/// Elements per cell, rounded up.
std::int64_t per_cell(std::int64_t extent, std::int64_t cells) {
  return extent / cells + (extent % cells != 0 ? 1 : 0);
}

/// i * cells / extent without overflow; extent > 0, i < extent, cells small.
std::int64_t cell(std::int64_t i, std::int64_t extent, std::int64_t cells) {
  return static_cast<std::int64_t>(static_cast<__int128>(i) * cells / extent);
}

}  // namespace

std::string bad_region(const Record& r) {
  const Layout l = layout(r);
  if (l.bad.empty()) return "";
  std::string out = l.batches > 1 ? range(l, &Place::batch, "batch entry", "batch entries") + ", " : "";
  out += range(l, &Place::row, "row", "rows") + ", " + range(l, &Place::column, "column", "columns");
  out += fmt::format(" of {} x {}", l.rows, l.columns);
  return l.batches > 1 ? out + fmt::format(", batch {}", l.batches) : out;
}

std::string picture(const Record& r) {
  const Layout l = layout(r);
  if (l.bad.empty()) return "";
  const std::int64_t height = std::min<std::int64_t>(16, l.rows), width = std::min<std::int64_t>(64, l.columns);
  std::vector<std::string> grid(static_cast<std::size_t>(height), std::string(static_cast<std::size_t>(width), '.'));
  for (const Place& p : l.bad)
    grid[static_cast<std::size_t>(cell(p.row, l.rows, height))][static_cast<std::size_t>(cell(p.column, l.columns, width))] =
        '#';
  std::string out;
  for (const std::string& line : grid) out += line + "\n";
  const std::int64_t bad = r.comparison ? r.comparison->bad + r.comparison->over_iid : 0;
  const auto drawn = static_cast<std::int64_t>(l.bad.size());
  out += fmt::format("one character = {} x {} elements; {}", per_cell(l.rows, height), per_cell(l.columns, width),
                     bad > drawn ? fmt::format("the first {} of {} bad elements are drawn", drawn, bad)
                                 : fmt::format("{} bad elements drawn", drawn));
  if (l.batches > 1) out += fmt::format("; {} batch entries on top of each other", l.batches);
  return out + "\n";
}

}  // namespace assay::report
