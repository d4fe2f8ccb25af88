// SPDX-License-Identifier: Apache-2.0
#include "probes/run/truth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "reference/rows.hpp"

namespace assay {

namespace {

constexpr std::uint64_t second_seed_offset = std::uint64_t{1} << 54;  // beyond every seed a case id can name
constexpr double whole_second_flops = 1 << 27;
constexpr std::int64_t sampled_rows = 16;

/// Arena, master copies of two data sets, operands widened to fp64, and for each data set eight fp64 numbers per output
/// (value and its low part, magnitudes, bounds).
double memory_needed(const Problem& p, const Layout& layout) {
  double bytes = static_cast<double>(layout.total_bytes);
  for (const Operand& o : p.operands) {
    const double elements = static_cast<double>(element_count(o));
    bytes += 2.0 * static_cast<double>(storage_elements(o)) * static_cast<double>(size_bytes(o.dtype)) + 8.0 * elements;
    if (o.access != Access::in) bytes += 2 * 8 * 8.0 * elements;
  }
  return bytes;
}

}  // namespace

Truth::Truth(const std::string& case_id)
    : op_(&find_op(case_op(case_id))),
      problem_(make_problem(case_id)),
      layout_(lay_out(problem_)),
      outputs_(problem_.outputs()) {
  const double needed = memory_needed(problem_, layout_), free_bytes = static_cast<double>(available_memory());
  if (!(needed <= 0.9 * free_bytes))
    throw Unavailable(
        fmt::format("this case needs about {:.1f} GiB of memory and {:.1f} GiB are free; choose a smaller problem",
                    needed / (1 << 30), free_bytes / (1 << 30)));
  first_ = make(problem_.seed);
  if (op_->sampled_rows) first_.rows = op_->sampled_rows(problem_);
}

void Truth::judge_whole(DataSet& d) const {
  d.rows.clear(), d.expected.clear(), d.bounds.clear();
}

void Truth::judge_more(DataSet& d, const std::vector<std::int64_t>& rows) {
  std::vector<std::int64_t> all;
  std::ranges::set_union(d.rows, rows, std::back_inserter(all));
  if (all.size() == d.rows.size()) return;
  d.rows = std::move(all), d.expected.clear(), d.bounds.clear();
}

DataSet Truth::make(std::uint64_t seed) const {
  DataSet d;
  d.seed = seed;
  for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
    const Operand& o = problem_.operands[i];
    d.storage.emplace_back();
    if (o.access == Access::out) continue;
    d.storage.back().assign(static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype), gap_byte);
    fill(o, problem_.fills[i], seed, d.storage.back());
  }
  return d;
}

DataSet& Truth::second() {
  if (!second_) {
    second_ = make(problem_.seed + second_seed_offset);
    const Operand& output = problem_.operands[outputs_.front()];
    const std::int64_t width = output.dims.back();
    const std::int64_t rows = width > 0 ? element_count(output) / width : 0;
    if (problem_.flops > whole_second_flops && rows > sampled_rows)
      second_->rows = sample_rows(rows, sampled_rows, second_->seed);
  }
  return *second_;
}

const std::vector<Expected>& Truth::expected(DataSet& d) {
  if (d.expected.empty()) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::span<const std::byte>> inputs(d.storage.begin(), d.storage.end());
    d.expected = op_->expect(problem_, inputs, d.rows);
    d.reference_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }
  return d.expected;
}

const std::vector<Bound>& Truth::bounds(DataSet& d, const Arithmetic& arithmetic) {
  for (const auto& [known, bounds] : d.bounds)
    if (known == arithmetic) return bounds;
  std::vector<Bound> made;
  for (std::size_t i = 0; i < outputs_.size(); ++i) made.push_back(op_->bound(problem_, i, expected(d)[i], arithmetic));
  return d.bounds.emplace_back(arithmetic, std::move(made)).second;
}

const std::string& Truth::input_digest() {
  if (!input_digest_.empty()) return input_digest_;
  std::string all;
  for (std::size_t i = 0; i < problem_.operands.size(); ++i)
    if (!first_.storage[i].empty()) all += hex(digest_tensor(problem_.operands[i], first_.storage[i]));
  return input_digest_ = hex(digest_bytes(std::as_bytes(std::span(all))));
}

const std::string& Truth::reference_digest() {
  if (!reference_digest_.empty()) return reference_digest_;
  std::string all;
  for (const Expected& e : expected(first_)) all += hex(digest_bytes(std::as_bytes(std::span(e.value))));
  return reference_digest_ = hex(digest_bytes(std::as_bytes(std::span(all))));
}

}  // namespace assay
