// SPDX-License-Identifier: Apache-2.0
// Which lines of a product are suspect, and what comparing their elements says.
#include "reference/verify.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "reference/rows.hpp"
#include "reference/verify_elements.hpp"
#include "reference/verify_panels.hpp"

namespace assay::reference {
namespace {

constexpr double lambda = 8;         // Hoeffding: P(|d| > lambda |E|) <= 2 exp(-lambda^2 / 2) = 2.5e-14
constexpr double robust_sigmas = 7;  // what stands out among its fellows, whatever the bound says
constexpr std::int64_t row_samples = 16;
constexpr std::int64_t most_examined = std::int64_t{1} << 20;
constexpr std::int64_t most_rounded = 4096;  // exact results that needed rounding, computed one by one

View view_of(const Operand& o, std::span<const std::byte> storage, std::int64_t batch) {
  const std::int64_t first = o.offset + batch * o.strides[0];
  return {o.dtype,      storage.data() + first * static_cast<std::int64_t>(size_bytes(o.dtype)),
          o.dims[1],    o.dims[2],
          o.strides[1], o.strides[2]};
}

/// Flags of one side: per panel, the lines of it that are out of bounds.
struct Flags {
  std::vector<std::vector<std::int64_t>> lines;  // per panel, sorted
  std::int64_t count = 0, beyond_bound = 0;
  double sigma = 0, smallest = 0;  // noise over statistic; median size of a certain find
};

bool narrow(const FinishedGemm& g) {
  return format(g.c.dtype).precision < format(DType::f32).precision && !is_integer(g.c.dtype);
}

/// Per line and panel, what the l2 norm of a correct line's errors there does not exceed, and (exchangeable terms) what it is
/// of the order of. T_iid and T_hard are sums of norms of magnitudes, so by Minkowski those of the panel's root sums of squares
/// bound the root sum of squares of the elements'.
std::vector<double> noise_bound(const FinishedGemm& g, const Combinations& c, std::int64_t k) {
  Expected e;
  const auto root = [](const std::vector<double>& sq) {
    Numbers r(sq.size());
    std::transform(sq.begin(), sq.end(), r.begin(), [](double x) { return std::sqrt(x); });
    return r;
  };
  e.value = root(c.value_sq), e.sum_abs = root(c.abs_sq), e.addend = root(c.addend_sq);
  e.sum_sq.assign(c.term_sq.begin(), c.term_sq.end());
  e.terms = k, e.abs_alpha = std::fabs(g.alpha), e.largest_input = c.largest_input;
  const Bound b = product_sum_bound(e, g.arithmetic, g.exchangeable, false, g.a.dtype);
  const bool statistical = !b.statistic.empty();  // sums of integers have no statistic
  const double gate = statistical ? rms_gate(g.arithmetic) : 1;
  // Absolute terms are per element, and product_sum_bound has one of them; ours is for the combination's own fp64 sums.
  const double absolute = static_cast<double>(panel_width * (k + 2)) * 2 * e.largest_input * std::max(1.0, e.abs_alpha) *
                          std::max(smallest_subnormal(g.arithmetic.accumulator), smallest_subnormal(g.arithmetic.operand));
  const double own = std::sqrt(static_cast<double>(panel_width)) * static_cast<double>(k + panel_width + 8) * 0x1p-53;
  std::vector<double> out = statistical ? b.statistic : b.hard;
  // The statistic has no output rounding: at most u |c| per element, or half a step where c is subnormal.
  const double u_out = narrow(g) ? unit_roundoff(g.c.dtype) : 0,
               steps = narrow(g) ? std::sqrt(static_cast<double>(panel_width)) * smallest_subnormal(g.c.dtype) / 2 : 0;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = u_out * e.value[i] + steps + gate * out[i] +
             own * (e.sum_abs[i] + (e.addend.empty() ? 0 : e.addend[i]) + e.value[i]) + absolute;
  return out;
}

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

void add_flag(Flags& f, const Combinations& c, std::size_t at) {
  f.lines[at % static_cast<std::size_t>(c.panels)].push_back(static_cast<std::int64_t>(at) / c.panels);
  ++f.count;
}

Flags flag_inexact(const FinishedGemm& g, const Combinations& c, std::int64_t k) {
  const std::vector<double> noise = noise_bound(g, c, k);
  const std::size_t count = noise.size();
  std::vector<double> relative(count), both;  // of the larger seed; of either
  for (std::size_t i = 0; i < count; ++i)
    for (const std::vector<double>& d : c.left_over) {
      const double z = d[i] == 0 ? 0 : std::fabs(d[i]) / noise[i];
      if (!(z <= relative[i])) relative[i] = std::isnan(z) ? std::numeric_limits<double>::infinity() : z;
      both.push_back(std::isnan(z) ? std::numeric_limits<double>::infinity() : z);
    }
  Flags f;
  f.lines.resize(static_cast<std::size_t>(c.panels));
  f.sigma = median(std::move(both)) / 0.6745;
  std::vector<std::size_t> flagged, outstanding;
  for (std::size_t i = 0; i < count; ++i) {
    if (!(relative[i] <= lambda))
      flagged.push_back(i);
    else if (f.sigma > 0 && relative[i] > robust_sigmas * f.sigma)
      outstanding.push_back(i);
  }
  f.beyond_bound = std::ssize(flagged);
  flagged.insert(flagged.end(), outstanding.begin(), outstanding.end());
  std::ranges::sort(flagged);
  for (const std::size_t i : flagged) add_flag(f, c, i);
  // An error e leaves e and the noise of the others; three deviations of that are all but certain not to hide it.
  const double in_noise = std::min(lambda, robust_sigmas * f.sigma > 0 ? robust_sigmas * f.sigma : lambda) + 3 * f.sigma;
  double value_sq = 0;
  for (const double v : c.value_sq) value_sq += v;
  if (value_sq > 0)
    f.smallest = in_noise * median(noise) / std::sqrt(value_sq / static_cast<double>(g.c.dims[1] * g.c.dims[2]));
  return f;
}

Flags flag_exact(const Combinations& c) {
  Flags f;
  f.lines.resize(static_cast<std::size_t>(c.panels));
  for (std::size_t i = 0; i < c.left_over[0].size(); ++i)
    if (!(c.left_over[0][i] == 0 && c.left_over[1][i] == 0)) add_flag(f, c, i);
  f.beyond_bound = f.count;
  return f;
}

/// One batch entry on its way through the steps.
struct Entry {
  const FinishedGemm& g;
  Product product;
  std::int64_t batch;
  std::vector<std::int64_t> sampled{};  // rows that were compared in full
  std::vector<KnownElement> rounded{};  // exact results that the format of C cannot hold
  std::vector<WrongElement> wrong{};
};

/// Rows of `all` within [first, first + count) that are not among `without`.
std::vector<std::int64_t> within(const std::vector<std::int64_t>& all, std::int64_t first, std::int64_t count) {
  return {std::ranges::lower_bound(all, first), std::ranges::lower_bound(all, first + count)};
}
std::vector<std::int64_t> without(const std::vector<std::int64_t>& all, const std::vector<std::int64_t>& taken) {
  std::vector<std::int64_t> rest;
  std::ranges::set_difference(all, taken, std::back_inserter(rest));
  return rest;
}
std::vector<std::int64_t> every(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) all[static_cast<std::size_t>(i)] = first + i;
  return all;
}

/// Compares rows x columns unless that would exceed what may be computed; false when it would.
bool examine(Entry& e, const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& columns, Verification& v) {
  const std::int64_t count = std::ssize(rows) * std::ssize(columns);
  v.suspects += count;
  if (count == 0) return true;
  if (v.examined > 0 && v.examined + count > most_examined) return false;
  v.examined += count;
  compare_rectangle(e.g, e.product, e.batch, rows, columns, v.found, e.wrong);
  return true;
}

/// Lines of a panel block that hold no wrong element so far.
std::vector<std::int64_t> unexplained(const std::vector<std::int64_t>& lines, const std::vector<WrongElement>& wrong,
                                      bool rows) {
  std::vector<std::int64_t> explained;
  for (const WrongElement& w : wrong) explained.push_back(rows ? w.row : w.column);
  std::ranges::sort(explained);
  return without(lines, explained);
}

/// Where flagged rows meet flagged columns; then what a flagged line that shows nothing there shows elsewhere in its panel.
void examine_blocks(Entry& e, const Flags& rows, const Flags& columns, Verification& v) {
  const std::int64_t m = e.product.c.rows, n = e.product.c.columns;
  for (std::int64_t p = 0; p * panel_width < m; ++p)
    for (std::int64_t q = 0; q * panel_width < n; ++q) {
      const std::int64_t height = std::min(panel_width, m - p * panel_width),
                         width = std::min(panel_width, n - q * panel_width);
      const std::vector<std::int64_t> flagged = within(rows.lines[static_cast<std::size_t>(q)], p * panel_width, height),
                                      bad_rows = without(flagged, e.sampled),
                                      bad_columns = within(columns.lines[static_cast<std::size_t>(p)], q * panel_width, width);
      if (flagged.empty() && bad_columns.empty()) continue;
      const std::size_t before = e.wrong.size();
      examine(e, bad_rows, bad_columns, v);
      const auto new_wrong = [&] {
        return std::vector<WrongElement>(e.wrong.begin() + static_cast<std::ptrdiff_t>(before), e.wrong.end());
      };
      const std::vector<std::int64_t> all_columns = every(q * panel_width, width), all_rows = every(p * panel_width, height);
      examine(e, unexplained(bad_rows, new_wrong(), true), without(all_columns, bad_columns), v);
      // Columns are flagged by noise that other rows' faults make as well, so only where no row of the block is flagged.
      if (flagged.empty()) examine(e, without(all_rows, e.sampled), bad_columns, v);
    }
}

/// Exact results that are no longer integers of the format of C: found by their size, computed, compared. False: too many.
bool take_out_rounded(Entry& e, Verification& v) {
  const int precision = format(e.g.c.dtype).precision;
  if (!narrow(e.g)) return true;
  const double limit = std::ldexp(e.g.unit, precision);
  const std::vector<WrongElement> large = elements_from(e.product.c, limit, most_rounded);
  if (std::ssize(large) > most_rounded) return false;
  for (const WrongElement& x : large) {
    const double truth = true_value(e.product, x.row, x.column);
    const std::uint64_t bits = bits_at(e.product.c, x.row, x.column);
    e.rounded.push_back({x.row, x.column, truth - decode(e.g.c.dtype, bits)});
    if (encode(e.g.c.dtype, truth) != bits) examine(e, {x.row}, {x.column}, v);
  }
  return true;
}

void sample(Entry& e, std::uint64_t seed, Verification& v) {
  e.sampled = sample_rows(e.product.c.rows, row_samples, seed);
  v.sampled_rows += std::ssize(e.sampled);
  compare_rows(e.g, e.product, e.batch, e.sampled, v.found, e.wrong);
}

void verify_entry(Entry& e, std::uint64_t seed, Verification& v) {
  const FinishedGemm& g = e.g;
  if (v.panels && g.exact && !take_out_rounded(e, v)) {
    v.panels = false;
    v.without_panels =
        "more than " + std::to_string(most_rounded) + " exact results needed rounding to " + std::string(name(g.c.dtype));
  }
  if (!v.panels || !g.exact) sample(e, seed, v);
  if (!v.panels) return;
  const Combinations right = combine(e.product, seed, !g.exact, e.rounded);
  for (const double s : right.abs_sq)
    if (!std::isfinite(s))
      throw std::invalid_argument("verify: A or B holds NaN, Inf or values whose squares leave fp64; compare the whole result");
  const std::int64_t k = e.product.a.columns;
  const Flags rows = g.exact ? flag_exact(right) : flag_inexact(g, right, k);
  v.flagged_rows += rows.count;
  v.beyond_bound += rows.beyond_bound;
  v.smallest_fault = std::max(v.smallest_fault, rows.smallest);
  // In units of the gate here; of few lines a correct one may be larger.
  if (static_cast<double>(right.left_over[0].size()) >= threshold("rms_least_outputs").value)
    v.sigma = std::max(v.sigma, rows.sigma);
  if (rows.count == 0 && e.wrong.empty()) return;
  std::vector<KnownElement> rounded;
  for (const KnownElement& x : e.rounded) rounded.push_back({x.column, x.row, x.instead});
  const Combinations left = combine(e.product.transposed(), seed, !g.exact, rounded);
  const Flags columns = g.exact ? flag_exact(left) : flag_inexact(g, left, k);
  v.flagged_columns += columns.count;
  examine_blocks(e, rows, columns, v);
}

void check(const FinishedGemm& g) {
  for (const auto& [operand, storage] :
       {std::pair(&g.a, g.a_storage), std::pair(&g.b, g.b_storage), std::pair(&g.c, g.c_storage)}) {
    if (operand->dims.size() != 3)
      throw std::invalid_argument("verify: operand " + operand->role + " needs three dims (batch, rows, columns), it has " +
                                  std::to_string(operand->dims.size()));
    require_storage(*operand, storage);
    if (operand->dtype == DType::f64)
      throw std::invalid_argument("verify: operand " + operand->role +
                                  " is fp64, as wide as the combinations themselves; compare the whole result");
  }
  if (!g.c0_storage.empty()) require_storage(g.c, g.c0_storage);
  if (g.c0_storage.empty() != (g.beta == 0))
    throw std::invalid_argument("verify: C before the call is needed exactly when beta is not 0");
  const auto &a = g.a.dims, &b = g.b.dims, &c = g.c.dims;
  if (a[0] != c[0] || b[0] != c[0] || a[1] != c[1] || b[2] != c[2] || a[2] != b[1])
    throw std::invalid_argument("verify: the sizes of A, B and C do not make a product");
}

}  // namespace

std::string_view WrongRegion::kind() const {
  if (rows == 1 && columns == 1) return "element";
  if (rows == 1) return "row";
  return columns == 1 ? "column" : "tile";
}

bool Verification::clean() const {
  return found.bad == 0 && found.over_iid == 0 && !found.rms_exceeded && !sigma_exceeded && regions.empty() &&
         examined == suspects;
}

std::string Verification::method() const {
  const std::string rows = "rows:" + std::to_string(sampled_rows);
  if (!panels) return rows;
  const std::string all = "panels:" + std::to_string(panel_width);
  return exact ? all + ",exact" : all + "+" + rows;
}

Verification verify(const FinishedGemm& g, std::uint64_t seed) {
  check(g);
  Verification v;
  v.exact = g.exact;
  v.panels = true;
  for (std::int64_t batch = 0; batch < g.c.dims[0]; ++batch) {
    Entry e{g,
            {view_of(g.a, g.a_storage, batch),
             view_of(g.b, g.b_storage, batch),
             view_of(g.c, g.c_storage, batch),
             {},
             g.alpha,
             g.beta},
            batch};
    if (g.beta != 0) e.product.c0 = view_of(g.c, g.c0_storage, batch);
    verify_entry(e, seed + static_cast<std::uint64_t>(batch), v);
    add_regions(batch, e.wrong, v.regions);
  }
  // 16-bit results: 512 roundings of their own are the noise, and hide faults below some 0.2 |c|. What the sums were added up
  // in shows in the sampled rows only.
  if (narrow(g)) v.sigma = 0;
  if (!g.exact && v.panels && g.exchangeable && !is_integer(g.arithmetic.accumulator) && !narrow(g)) {
    v.sigma_gate = rms_gate(g.arithmetic);
    v.sigma *= v.sigma_gate;
    v.sigma_exceeded = !(v.sigma <= v.sigma_gate);
  }
  if (!v.panels) v.smallest_fault = v.found.median_bound_over_rms;
  return v;
}

}  // namespace assay::reference
