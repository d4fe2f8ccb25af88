// SPDX-License-Identifier: Apache-2.0
// Attention in wide arithmetic, block of queries by block; docs/numerics.md, attention, derives the magnitudes.
#include "reference/ops/attention.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace assay::reference {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using View = Eigen::Map<const Matrix<T>>;
template <class T>
using Row = Eigen::Array<T, 1, Eigen::Dynamic>;

constexpr std::int64_t block_rows = 96;  // queries of one head per task: two fp64 panels of 1500 keys fit a core's caches
constexpr double serial_products = 2e6;  // below, a thread team costs more than it saves

void require_sizes(const Attention& a) {
  const auto need = [](const char* what, std::size_t got, std::int64_t want) {
    if (got != static_cast<std::size_t>(want))
      throw std::invalid_argument("attention: " + std::string(what) + " has " + std::to_string(got) +
                                  " elements, its shape needs " + std::to_string(want));
  };
  if (a.hkv < 1 || a.hq % a.hkv != 0) throw std::invalid_argument("attention: hkv must divide hq");
  need("Q", a.q.size(), a.batch * a.hq * a.sq * a.d);
  need("K", a.k.size(), a.batch * a.hkv * a.skv * a.d);
  need("V", a.v.size(), a.batch * a.hkv * a.skv * a.dv);
  need("bias", a.bias.size(), a.bias_heads * a.sq * a.skv);
  need("visible", a.visible.size(), a.batch * a.sq);
}

/// Query `global` of (batch,hq,sq).
struct Query {
  std::int64_t e, h, i;
};
Query query(const Attention& a, std::int64_t global) {
  return {global / (a.hq * a.sq), global / a.sq % a.hq, global % a.sq};
}
KeyRange range_of(const Attention& a, const Query& x) {
  const KeyRange r = a.visible[static_cast<std::size_t>(x.e * a.sq + x.i)];
  if (r.first < 0 || r.last > a.skv) throw std::invalid_argument("attention: a visible range leaves the keys");
  return r;
}

/// What every task reads: K and V of all heads, with what magnitudes need of them.
struct Shared {
  const Attention& a;
  const std::vector<std::int64_t>& rows;
  std::vector<float> norm, root_fourth;  // per key: |k|, sqrt(sum k^4)
  std::vector<float> v_abs, v_sq;
  double largest_v = 0;
  double unit = 1;  // of v_abs and v_sq: a power of two, so that fp32 holds what is subnormal in the format of V
  bool serial = false;

  std::int64_t global(std::int64_t local) const { return rows.empty() ? local : rows[static_cast<std::size_t>(local)]; }
};

Shared share(const Attention& a, const std::vector<std::int64_t>& rows) {
  Shared s{.a = a, .rows = rows, .norm = {}, .root_fourth = {}, .v_abs = {}, .v_sq = {}};
  const bool large = a.v.size() > 100000;
  double largest = 0;
#pragma omp parallel for reduction(max : largest) if (large)
  for (std::size_t i = 0; i < a.v.size(); ++i) largest = std::max(largest, std::fabs(a.v[i]));
  s.largest_v = largest;
  if (largest > 0 && largest < 0x1p-40) s.unit = std::ldexp(1.0, std::ilogb(largest));
  s.v_abs.resize(a.v.size()), s.v_sq.resize(a.v.size());
  const std::int64_t keys = a.batch * a.hkv * a.skv;
  if (!a.magnitudes) return s;
  s.norm.resize(static_cast<std::size_t>(keys)), s.root_fourth.resize(s.norm.size());
#pragma omp parallel for if (large)
  for (std::int64_t j = 0; j < keys; ++j) {
    const Eigen::Map<const Row<double>> k(a.k.data() + j * a.d, a.d);
    s.norm[static_cast<std::size_t>(j)] = static_cast<float>(std::sqrt(k.square().sum()));
    s.root_fourth[static_cast<std::size_t>(j)] = static_cast<float>(std::sqrt(k.square().square().sum()));
  }
#pragma omp parallel for if (large)
  for (std::size_t i = 0; i < a.v.size(); ++i) {
    s.v_abs[i] = static_cast<float>(std::fabs(a.v[i]) / s.unit);
    s.v_sq[i] = s.v_abs[i] * s.v_abs[i];
  }
  return s;
}

/// Below it an exponential is zero even as a subnormal.
double vanishing(DType t) {
  return std::log(smallest_subnormal(t)) - 1;
}

/// One query: what became of its row, and the members of it.
struct Line {
  bool special = false, hidden = false;  // NaN; NaN or 0
  long double inverse = 0;               // of the sum of exponentials
  long double log_sum_exp = 0;
  double row[attention_row_members] = {};
};

/// `x`: scale q.k of the visible keys, replaced by exponentials. `y` and `gap` get y^2 and (y G)^2 by chance (exchangeable) or
/// y and y G, rigorous.
template <class W>
void weigh(const Shared& s, const Query& query, KeyRange r, Eigen::Map<Row<W>> x, Eigen::Map<Row<float>> y,
           Eigen::Map<Row<float>> gap, Line& out) {
  const Attention& a = s.a;
  const std::int64_t n = r.last - r.first;
  out.row[key_count] = static_cast<double>(n);
  Row<float> product, size;  // scale q.k; where there is a bias |scale q.k| + |bias|
  if (a.magnitudes) product = x.template cast<float>();
  if (a.bias_heads > 0) {
    const double* b = a.bias.data() + ((a.bias_heads > 1 ? query.h : 0) * a.sq + query.i) * a.skv + r.first;
    if (a.magnitudes) size = product.abs();
    for (std::int64_t j = 0; j < n; ++j) {
      x[j] += static_cast<W>(b[j]);
      if (a.magnitudes) size[j] = b[j] == -infinity ? 0 : size[j] + static_cast<float>(std::fabs(b[j]));
    }
  }
  const bool finite = std::isfinite(x.sum());
  if (!finite) {
    out.special = !(x < static_cast<W>(infinity)).all();
    out.hidden = !out.special && (x == static_cast<W>(-infinity)).all();
    if (out.special || out.hidden) return;
  }
  const W max = x.maxCoeff(), least = x.minCoeff();
  if (a.exact_scores && (x == max || x - max < static_cast<W>(vanishing(a.compute))).all())
    out.row[tie_count] = static_cast<double>((x == max).count());
  Row<float> argument;  // what the argument of exp meets: 2.25 X + 4 |scale q.k| + |max|
  if (a.magnitudes) {
    const float highest = static_cast<float>(max);
    const auto below = highest - x.template cast<float>();
    const auto rest = 4 * (a.bias_heads > 0 ? size : product).abs() + std::fabs(highest);
    if (finite)
      argument = 2.25f * below + rest;
    else
      argument = below.isFinite().select(2.25f * below, 0.0f) + rest;
  }
  if (least - max > -700)
    x = (x - max).exp();
  else
    x = (x - max > W{-708}).select((x - max).exp(), W{0});  // Eigen's exp stops at e^-708
  const W sum = x.sum(), log_sum = std::log(sum);
  out.inverse = 1 / static_cast<long double>(sum);
  out.log_sum_exp = static_cast<long double>(max) + static_cast<long double>(log_sum);
  out.row[row_max] = static_cast<double>(max), out.row[row_log_sum] = static_cast<double>(log_sum);
  if (!a.magnitudes) return;
  // Errors in units of u: a product sum of d terms, and the argument. Row by row whole expressions would take ten passes.
  const Eigen::Map<const Row<double>> q(a.q.data() + ((query.e * a.hq + query.h) * a.sq + query.i) * a.d, a.d);
  const std::int64_t key = (query.e * a.hkv + query.h / (a.hq / a.hkv)) * a.skv + r.first;
  const double scale = std::fabs(a.scale), d = static_cast<double>(a.d), chance = threshold("iid_nearest").value;
  // G^2 = 2 (10 scale)^2 (d P^2 + R2 + c^2) + 2 (2 argument)^2, P^2 = c^2/3 + R2/6, R2 by Cauchy and Schwarz.
  const double root = std::sqrt(q.square().square().sum()), unit = 2 * chance * chance;
  const float inverse = static_cast<float>(out.inverse), of_norm = static_cast<float>(scale * (d + 3) * q.matrix().norm()),
              of_product = static_cast<float>(unit * (d / 3 + 1)),
              of_fourth = static_cast<float>(root * unit * scale * scale * (d / 6 + 1));
  const float *norm = s.norm.data() + key, *fourth = s.root_fourth.data() + key, *c = product.data(), *t = argument.data();
  const W* e = x.data();
  float *to = y.data(), *to_gap = gap.data();
  float gap_sum = 0, argument_sum = 0, largest = 0, squares = 0, gaps = 0;
  if (a.exchangeable) {
#pragma omp simd reduction(+ : gap_sum, argument_sum, squares, gaps) reduction(max : largest)
    for (std::int64_t j = 0; j < n; ++j) {
      const float w = static_cast<float>(e[j]) * inverse, g = norm[j] * of_norm + t[j], square = w * w;
      const float by_chance = (c[j] * c[j] * of_product + fourth[j] * of_fourth + 8 * t[j] * t[j]) * square;
      gap_sum += w * g, argument_sum += w * t[j], squares += square, gaps += by_chance;
      largest = std::max(largest, g);
      to[j] = square, to_gap[j] = by_chance;
    }
  } else {
#pragma omp simd reduction(+ : gap_sum, argument_sum, squares) reduction(max : largest)
    for (std::int64_t j = 0; j < n; ++j) {
      const float w = static_cast<float>(e[j]) * inverse, g = norm[j] * of_norm + t[j];
      gap_sum += w * g, argument_sum += w * t[j], squares += w * w;
      largest = std::max(largest, g);
      to[j] = w, to_gap[j] = w * g;
    }
  }
  out.row[mean_gap_of] = gap_sum, out.row[mean_argument] = argument_sum;
  out.row[largest_gap] = largest, out.row[root_sum] = std::sqrt(static_cast<double>(squares));
  if (a.exchangeable) out.row[root_gap_of] = std::sqrt(static_cast<double>(gaps));
}

struct Block {
  std::int64_t row, rows;  // positions among the wanted queries; all of one head
};

std::vector<Block> cut(const Shared& s, std::int64_t wanted) {
  std::vector<Block> blocks;
  for (std::int64_t r = 0; r < wanted;) {
    std::int64_t end = r + 1;
    while (end < wanted && end - r < block_rows && s.global(end) / s.a.sq == s.global(r) / s.a.sq) ++end;
    blocks.push_back({r, end - r});
    r = end;
  }
  return blocks;
}

template <class W, class A, class B, class C>
void multiply(bool serial, const A& a, const B& b, C& c) {
  if (serial)
    c.noalias() = a.lazyProduct(b);
  else
    c.noalias() = a * b;
}

template <class W>
void compute_block(const Shared& s, const Block& block, Expected& out, Expected& lse, std::vector<char>& hidden) {
  const Attention& a = s.a;
  const Query head = query(a, s.global(block.row));
  KeyRange all{a.skv, 0};
  std::vector<KeyRange> ranges;
  Matrix<W> q(block.rows, a.d);
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const std::int64_t global = s.global(block.row + r);
    ranges.push_back(range_of(a, query(a, global)));
    if (ranges.back().last > ranges.back().first)
      all = {std::min(all.first, ranges.back().first), std::max(all.last, ranges.back().last)};
    q.row(r) = View<double>(a.q.data() + global * a.d, 1, a.d).template cast<W>() * static_cast<W>(a.scale);
  }
  const std::int64_t n = std::max<std::int64_t>(0, all.last - all.first);
  const std::int64_t key = (head.e * a.hkv + head.h / (a.hq / a.hkv)) * a.skv + (n > 0 ? all.first : 0);
  Matrix<W> p(block.rows, n), o(block.rows, a.dv);
  const View<double> k(a.k.data() + key * a.d, n, a.d), v(a.v.data() + key * a.dv, n, a.dv);
  if constexpr (std::is_same_v<W, double>)
    multiply<W>(s.serial, q, k.transpose(), p);
  else
    multiply<W>(s.serial, q, k.template cast<W>().transpose().eval(), p);
  // y above, y G below: one product with v packs it once.
  Matrix<float> both(2 * block.rows, a.magnitudes ? n : 0);
  auto y = both.topRows(block.rows), gap = both.bottomRows(block.rows);
  std::vector<Line> rows(static_cast<std::size_t>(block.rows));
  for (std::int64_t r = 0; r < block.rows; ++r) {
    Line& line = rows[static_cast<std::size_t>(r)];
    line.row[largest_value] = s.largest_v;
    const KeyRange seen = ranges[static_cast<std::size_t>(r)];
    const std::int64_t first = seen.first - all.first, count = seen.last - seen.first;
    line.hidden = count <= 0;
    if (!line.hidden)
      weigh<W>(s, query(a, s.global(block.row + r)), seen, {p.row(r).data() + first, count},
               {y.row(r).data() + (a.magnitudes ? first : 0), a.magnitudes ? count : 0},
               {gap.row(r).data() + (a.magnitudes ? first : 0), a.magnitudes ? count : 0}, line);
    const bool number = !line.hidden && !line.special;
    const auto clear = [&](auto& m, std::int64_t from, std::int64_t to) { m.row(r).segment(from, to - from).setZero(); };
    const auto clear_hidden = [&](auto& m) { clear(m, 0, number ? first : n), clear(m, number ? first + count : n, n); };
    clear_hidden(p);
    if (a.magnitudes) clear_hidden(y), clear_hidden(gap);
  }
  if constexpr (std::is_same_v<W, double>)
    multiply<W>(s.serial, p, v, o);
  else
    multiply<W>(s.serial, p, v.template cast<W>().eval(), o);
  const View<float> v_abs(s.v_abs.data() + key * a.dv, n, a.dv), v_sq(s.v_sq.data() + key * a.dv, n, a.dv);
  Matrix<float> sums = Matrix<float>::Zero(2 * block.rows, a.dv);
  if (a.magnitudes) multiply<float>(s.serial, both, a.exchangeable ? v_sq : v_abs, sums);
  const auto sum = sums.topRows(block.rows), sum_gap = sums.bottomRows(block.rows);
  // Rounded upwards: conversions, squares and n sums err by less.
  const double up = 1 + (static_cast<double>(n) + 16) * static_cast<double>(std::numeric_limits<float>::epsilon());
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const Line& w = rows[static_cast<std::size_t>(r)];
    const std::size_t line = static_cast<std::size_t>(block.row + r);
    for (std::size_t m = key_count; m < attention_row_members; ++m)
      out.further[m][line] = lse.further[m][line] = w.row[m] * (m >= root_sum ? up : 1);
    for (std::int64_t c = 0; c < a.dv; ++c) {
      const std::size_t at = line * static_cast<std::size_t>(a.dv) + static_cast<std::size_t>(c);
      const bool number = !w.hidden && !w.special;
      const W value = o(r, c) * static_cast<W>(w.inverse);
      out.value[at] = number ? static_cast<double>(value) : nan;
      if (!out.value_lo.empty()) out.value_lo[at] = number ? static_cast<double>(value - static_cast<W>(out.value[at])) : 0;
      // sum y|v| <= sqrt(n sum (y v)^2), and sum (y v)^2 <= (sum y|v|)^2.
      const double one = static_cast<double>(sum(r, c)) * up, unit = a.exchangeable ? s.unit * s.unit : s.unit;
      out.sum_abs[at] = !number ? nan : a.exchangeable ? s.unit * std::sqrt(w.row[key_count] * one) : s.unit * one;
      out.sum_sq[at] = (a.exchangeable ? one : one * one) * s.unit * s.unit;
      out.further[weighted][at] = static_cast<double>(sum_gap(r, c)) * up * unit;
    }
    hidden[line] = w.hidden;
    lse.value[line] = w.hidden ? -infinity : w.special ? nan : static_cast<double>(w.log_sum_exp);
    if (!lse.value_lo.empty())
      lse.value_lo[line] =
          w.hidden || w.special ? 0 : static_cast<double>(w.log_sum_exp - static_cast<long double>(lse.value[line]));
    lse.sum_abs[line] = w.hidden || w.special ? nan : std::fabs(w.row[row_max]) + w.row[row_log_sum];
  }
}

}  // namespace

std::vector<Expected> attention(const Attention& a, std::vector<std::int64_t> rows) {
  require_sizes(a);
  const std::int64_t wanted = rows.empty() ? a.batch * a.hq * a.sq : std::ssize(rows);
  const bool wide = a.compute == DType::f64;
  const auto count = static_cast<std::size_t>(wanted), size = count * static_cast<std::size_t>(a.dv);
  Expected out, lse;
  out.value.resize(size), out.sum_abs.resize(size), out.sum_sq.resize(size);
  lse.value.assign(count, 0), lse.sum_abs.assign(count, 0);
  if (wide) out.value_lo.resize(size), lse.value_lo.assign(count, 0);
  out.further.assign(attention_row_members, Numbers(count, 0.0));
  lse.further = out.further;
  out.further[weighted].resize(size);
  Shared s = share(a, rows);
  s.serial = static_cast<double>(wanted) * static_cast<double>(a.skv) * static_cast<double>(a.d + a.dv) < serial_products;
  const std::vector<Block> blocks = cut(s, wanted);
  std::vector<char> hidden(count);
#pragma omp parallel for schedule(dynamic) if (!s.serial)
  for (std::size_t b = 0; b < blocks.size(); ++b)
    wide ? compute_block<long double>(s, blocks[b], out, lse, hidden) : compute_block<double>(s, blocks[b], out, lse, hidden);
  if (std::ranges::find(hidden, 1) != hidden.end() && size > 0) {
    out.other.assign(size, nan);
    for (std::size_t line = 0; line < count; ++line)
      if (hidden[line]) std::fill_n(out.other.begin() + static_cast<std::ptrdiff_t>(line * size / count), size / count, 0.0);
  }
  out.row_length = a.dv, lse.row_length = 1;
  out.terms = a.skv, lse.terms = 1;
  out.largest_input = std::max(1.0, s.largest_v);
  out.rows = rows, lse.rows = std::move(rows);
  std::vector<Expected> both;
  both.push_back(std::move(out)), both.push_back(std::move(lse));
  return both;
}

std::vector<std::vector<double>> attention_slow(const Attention& a) {
  require_sizes(a);
  std::vector<std::vector<double>> out(2);
  for (std::int64_t row = 0; row < a.batch * a.hq * a.sq; ++row) {
    const Query x = query(a, row);
    const KeyRange r = range_of(a, x);
    const std::int64_t head = (x.e * a.hkv + x.h / (a.hq / a.hkv)) * a.skv;
    std::vector<long double> s;
    for (std::int64_t j = r.first; j < r.last; ++j) {
      long double dot = 0;
      for (std::int64_t l = a.d; l-- > 0;)
        dot += static_cast<long double>(a.q[static_cast<std::size_t>(row * a.d + l)]) *
               static_cast<long double>(a.k[static_cast<std::size_t>((head + j) * a.d + l)]);
      dot *= static_cast<long double>(a.scale);
      if (a.bias_heads > 0)
        dot +=
            static_cast<long double>(a.bias[static_cast<std::size_t>(((a.bias_heads > 1 ? x.h : 0) * a.sq + x.i) * a.skv + j)]);
      s.push_back(dot);
    }
    const bool special = std::any_of(s.begin(), s.end(), [](long double v) { return !(v < infinity); });
    const bool hidden = !special && std::all_of(s.begin(), s.end(), [](long double v) { return v == -infinity; });
    std::vector<long double> o(static_cast<std::size_t>(a.dv), special || hidden ? nan : 0);
    long double lse = special ? nan : -infinity;
    for (std::size_t j = 0; j < s.size() && !special && !hidden; ++j) {
      if (s[j] == -infinity) continue;
      long double inverse = 0;
      for (const long double other : s) inverse += std::exp(other - s[j]);
      for (std::int64_t c = 0; c < a.dv; ++c)
        o[static_cast<std::size_t>(c)] +=
            static_cast<long double>(
                a.v[static_cast<std::size_t>((head + r.first + static_cast<std::int64_t>(j)) * a.dv + c)]) /
            inverse;
      lse = std::max(lse, s[j]) + std::log1p(std::exp(-std::fabs(lse - s[j])));
    }
    for (const long double v : o) out[0].push_back(static_cast<double>(v));
    out[1].push_back(static_cast<double>(lse));
  }
  return out;
}

}  // namespace assay::reference
