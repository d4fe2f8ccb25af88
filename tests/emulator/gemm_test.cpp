// SPDX-License-Identifier: Apache-2.0
// kernels/gemm.cu under the emulator: every version and format against long double and, bit for bit, against its documented
// order.
#include "kernels/gemm.hpp"

#include <memory>
#include <optional>

#include "reference/models/tensor_core.hpp"
#include "tests/emulator/on_device.hpp"

namespace assay::emulator {
namespace {

using kernels::GemmArgs;
using kernels::GemmVersion;

constexpr GemmVersion versions[] = {GemmVersion::naive, GemmVersion::tiled, GemmVersion::split_k, GemmVersion::mma,
                                    GemmVersion::mma_tf32};

std::string entry_of(GemmVersion v, DType t) {
  return std::string("gemm_") + kernels::gemm_versions[static_cast<int>(v)].name + "_" + suffix(t);
}
bool takes(GemmVersion v, DType t) {
  return v == GemmVersion::mma ? size_bytes(t) == 2 : v == GemmVersion::mma_tf32 ? t == DType::f32 : true;
}
bool is_mma(GemmVersion v) {
  return v == GemmVersion::mma || v == GemmVersion::mma_tf32;
}

struct Shape {
  long long batch = 1, m = 1, n = 1, k = 1;
  bool row_major = false, ta = false, tb = false;
  long long pad = 0, gap = 0, off = 0;  // beyond the tight leading dimension, between batch entries, before element 0
  double alpha = 1, beta = 0;
  bool wide = false, shared_a = false;
};

/// (batch, rows, columns) in memory, as BLAS stores it.
struct Layout {
  long long batch, row, column, off, size;
  Layout(const Shape& s, long long rows, long long columns, bool along_columns, bool shared = false) : off(s.off) {
    const long long ld = (along_columns ? columns : rows) + s.pad;
    row = along_columns ? ld : 1, column = along_columns ? 1 : ld;
    const long long one = ld * (along_columns ? rows : columns) + s.gap;
    batch = shared ? 0 : one, size = off + (shared ? 1 : s.batch) * one + 1;
  }
  std::size_t at(long long e, long long i, long long j) const {
    return static_cast<std::size_t>(off + e * batch + i * row + j * column);
  }
};

struct Problem {
  Shape s;
  DType in, c, out;
  Layout pa, pb, pc;
  std::vector<double> as, bs, cs;

  Problem(DType t, const Shape& shape)
      : s(shape),
        in(t),
        c(compute_of(t)),
        out(s.wide ? DType::f32 : t),
        pa(s, s.m, s.k, s.row_major != s.ta, s.shared_a),
        pb(s, s.k, s.n, s.row_major != s.tb),
        pc(s, s.m, s.n, s.row_major),
        as(within(t, pa, s.shared_a ? 1 : s.batch, s.m, s.k, 1)),
        bs(within(t, pb, s.batch, s.k, s.n, 2)),
        cs(within(out, pc, s.batch, s.m, s.n, 3)) {}

  double a(long long e, long long i, long long l) const { return as[pa.at(e, i, l)]; }
  double b(long long e, long long l, long long j) const { return bs[pb.at(e, l, j)]; }
  double old(long long e, long long i, long long j) const { return cs[pc.at(e, i, j)]; }
  long long terms() const { return s.alpha == 0 ? 0 : s.k; }

  GemmArgs args() const {
    return {.a = nullptr,
            .b = nullptr,
            .c = nullptr,
            .workspace = nullptr,
            .batch = s.batch,
            .m = s.m,
            .n = s.n,
            .k = s.k,
            .a_batch = pa.batch,
            .a_row = pa.row,
            .a_column = pa.column,
            .b_batch = pb.batch,
            .b_row = pb.row,
            .b_column = pb.column,
            .c_batch = pc.batch,
            .c_row = pc.row,
            .c_column = pc.column,
            .alpha = s.alpha,
            .beta = s.beta,
            .c_is_f32 = s.wide,
            .step = 0};
  }

 private:
  /// Numbers inside the matrices, NaN around them.
  static std::vector<double> within(DType t, const Layout& l, long long batch, long long rows, long long columns,
                                    std::uint64_t seed) {
    std::vector<double> values(static_cast<std::size_t>(l.size), NAN);
    const std::vector<double> random = numbers(t, values.size(), seed);
    for (long long e = 0; e < batch; ++e)
      for (long long i = 0; i < rows; ++i)
        for (long long j = 0; j < columns; ++j) values[l.at(e, i, j)] = random[l.at(e, i, j)];
    return values;
  }
};

void* element(Array& x, long long offset) {
  return static_cast<std::byte*>(x.data()) + offset * size_bytes(x.dtype());
}

/// C after the version ran: no finding, and the same bytes under three schedules. What the call must not read is uninitialised.
std::unique_ptr<Array> result(const Problem& p, GemmVersion v, int sm = 90, std::optional<unsigned> grid = {}) {
  const std::string entry = entry_of(v, p.in);
  CAPTURE(entry);
  std::unique_ptr<Array> first;
  for (const Schedule schedule : all_schedules) {
    if (checked() && schedule != Schedule::random) continue;
    Array a = p.s.alpha == 0 ? Array(p.in, p.as.size()) : Array(p.in, p.as);
    Array b = p.s.alpha == 0 ? Array(p.in, p.bs.size()) : Array(p.in, p.bs);
    auto c = p.s.beta == 0 ? std::make_unique<Array>(p.out, p.cs.size()) : std::make_unique<Array>(p.out, p.cs);
    GemmArgs g = p.args();
    const int compute_bytes = static_cast<int>(size_bytes(p.c));
    Array workspace(p.c, static_cast<std::size_t>(kernels::gemm_workspace_bytes(g, v, compute_bytes) / compute_bytes + 1));
    g.a = element(a, p.s.off), g.b = element(b, p.s.off), g.c = element(*c, p.s.off), g.workspace = workspace.data();
    for (g.step = 0; g.step < kernels::gemm_steps(v); ++g.step) {
      kernels::Launch shape = kernels::gemm_launch(g, v);
      if (grid) shape.grid_x = *grid;
      const Report report = launch_kernel(entry, shape, g, {.schedule = schedule, .seed = 3, .sm = sm});
      CHECK_MESSAGE(report.clean(), text(report));
    }
    CHECK(workspace.untouched(workspace.size() - 1));
    if (!first)
      first = std::move(c);
    else
      CHECK(first->bytes() == c->bytes());
  }
  return first;
}

template <class C>
C in_order(const Problem& p, long long e, long long i, long long j, long long first, long long last) {
  C sum = 0;
  for (long long l = first; l < last; ++l) sum = std::fma(static_cast<C>(p.a(e, i, l)), static_cast<C>(p.b(e, l, j)), sum);
  return sum;
}

/// 11 bits, ties away from zero.
double to_tf32(double x) {
  int exponent = 0;
  const double significand = std::frexp(x, &exponent);
  return std::ldexp(std::round(significand * 2048), exponent - 11);
}

double by_tensor_core(const Problem& p, long long e, long long i, long long j, int sm) {
  const bool tf32 = p.in == DType::f32;
  const long long step = sm < 90 ? (tf32 ? 4 : 8) : (tf32 ? 8 : 16);
  double sum = 0;
  for (long long first = 0; first < p.terms(); first += step) {
    double a[16] = {}, b[16] = {};
    for (long long l = first; l < p.terms() && l < first + step; ++l)
      a[l - first] = tf32 ? to_tf32(p.a(e, i, l)) : p.a(e, i, l), b[l - first] = tf32 ? to_tf32(p.b(e, l, j)) : p.b(e, l, j);
    sum = sm >= 90 ? (tf32 ? models::tensor_core_step<8, 25>(sum, a, 1, b, 1, 8)
                           : models::tensor_core_step<16, 25>(sum, a, 1, b, 1, 16))
                   : (tf32 ? models::tensor_core_step<4, 24>(sum, a, 1, b, 1, 4)
                           : models::tensor_core_step<8, 24>(sum, a, 1, b, 1, 8));
  }
  return sum;
}

/// Documented order, in C.
template <class C>
double documented(const Problem& p, GemmVersion v, int sm, long long e, long long i, long long j) {
  C sum = 0;
  if (is_mma(v)) {
    sum = static_cast<C>(by_tensor_core(p, e, i, j, sm));
  } else if (v == GemmVersion::split_k) {
    const long long length = (p.terms() + 7) / 8;
    for (long long slice = 0; slice < 8; ++slice)
      sum += in_order<C>(p, e, i, j, slice * length, std::min((slice + 1) * length, p.terms()));
  } else {
    sum = in_order<C>(p, e, i, j, 0, p.terms());
  }
  const C alpha = static_cast<C>(p.s.alpha), beta = static_cast<C>(p.s.beta), old = static_cast<C>(p.old(e, i, j));
  if (beta == 0) return alpha * sum;
  return alpha == 0 ? beta * old : std::fma(beta, old, static_cast<C>(alpha * sum));
}

/// Largest error of the version's sum, as a multiple of the sum of |a b|. mma: each step truncates its products and the sum so
/// far, nb + 1 numbers, at 2^-F of the largest one's power of two, then the result to 24 bits: arXiv 2511.10909.
double sum_bound(const Problem& p, GemmVersion v, int sm) {
  const double k = static_cast<double>(p.terms());
  if (!is_mma(v)) return (k + 8) * unit_roundoff(p.c);
  const bool tf32 = v == GemmVersion::mma_tf32;
  const double nb = (sm < 90 ? 8.0 : 16.0) / (tf32 ? 2 : 1), fraction = sm < 90 ? 0x1p-24 : 0x1p-25;
  return std::ceil(k / nb) * ((nb + 1) * 2 * fraction + 0x1p-23) + (tf32 ? 2.001 * 0x1p-11 : 0);
}

void check_result(const Problem& p, const Array& got, GemmVersion v, int sm) {
  const std::string entry = entry_of(v, p.in);
  CAPTURE(entry);
  long long different = 0, written = 0, beyond = 0;
  for (long long e = 0; e < p.s.batch; ++e)
    for (long long i = 0; i < p.s.m; ++i)
      for (long long j = 0; j < p.s.n; ++j) {
        const long double alpha = round_to(p.c, p.s.alpha), beta = round_to(p.c, p.s.beta);
        long double sum = 0, magnitude = 0;
        for (long long l = 0; l < p.terms(); ++l) {
          const long double product = static_cast<long double>(p.a(e, i, l)) * p.b(e, l, j);
          sum += product, magnitude += fabsl(product);
        }
        const long double addend = beta == 0 ? 0 : beta * p.old(e, i, j), want = alpha * sum + addend;
        const long double inner =
            fabsl(alpha) * magnitude * (sum_bound(p, v, sm) + unit_roundoff(p.c)) + 2 * unit_roundoff(p.c) * fabsl(want);
        const long double bound = inner + unit_roundoff(p.out) * (fabsl(want) + inner) + smallest_subnormal(p.out);
        const std::size_t at = p.pc.at(e, i, j);
        beyond += !(fabsl(got[at] - want) <= bound);
        different += got.bits(at) != encode(p.out, p.in == DType::f64 ? documented<double>(p, v, sm, e, i, j)
                                                                      : documented<float>(p, v, sm, e, i, j));
        ++written;
      }
  CHECK(beyond == 0);
  CHECK(different == 0);
  long long kept = 0;
  for (std::size_t x = 0; x < got.size(); ++x)
    kept += p.s.beta == 0 ? got.untouched(x) : std::isnan(p.cs[x]) && got.bits(x) == encode(p.out, p.cs[x]);
  CHECK(kept == p.pc.size - written);
}

void check(DType t, const Shape& shape) {
  const Problem p(t, shape);
  for (const GemmVersion v : versions)
    for (const int sm : {90, 80})
      if (takes(v, t) && (sm == 90 || is_mma(v))) check_result(p, *result(p, v, sm), v, sm);
}

}  // namespace

TEST_CASE("gemm kernels exist in every format they name") {
  check_entries("gemm", kernels::gemm_versions);
  for (const GemmVersion v : versions)
    for (const DType t : kernel_formats) CHECK((find_kernel(entry_of(v, t)) != nullptr) == takes(v, t));
}

TEST_CASE("gemm kernels keep their documented order and agree with long double in every order, transpose and alignment") {
  for (const DType t : kernel_formats)
    for (int layout = 0; layout < 8; ++layout)
      check(t, {.batch = 2,
                .m = 19,
                .n = 13,
                .k = 21,
                .row_major = (layout & 1) != 0,
                .ta = (layout & 2) != 0,
                .tb = (layout & 4) != 0,
                .pad = layout % 3,
                .gap = layout % 4,
                .off = layout % 5});
}

TEST_CASE("gemm kernels: several tiles and a rest of each, single elements, empty sums, an operand that all entries share") {
  for (const DType t : kernel_formats) {
    check(t, {.m = 67, .n = 70, .k = 35, .row_major = true});
    check(t, {});
    check(t, {.m = 1, .n = 33, .k = 1, .tb = true});
    check(t, {.m = 18, .n = 1, .k = 129});
    check(t, {.m = 5, .n = 7, .k = 0});
    check(t, {.m = 5, .n = 7, .k = 0, .beta = 2});
    check(t, {.batch = 3, .m = 4, .n = 5, .k = 9, .gap = 2, .wide = size_bytes(t) == 2, .shared_a = true});
  }
}

TEST_CASE("gemm kernels apply alpha and beta once, and read nothing that a zero scalar rules out") {
  for (const DType t : kernel_formats)
    for (const double alpha : {1.0, -0.1, 0.0})
      for (const double beta : {0.0, 1.0, 0.7}) {
        check(t, {.m = 17, .n = 9, .k = 20, .pad = 1, .alpha = alpha, .beta = beta});
        if (size_bytes(t) == 2) check(t, {.m = 17, .n = 9, .k = 20, .alpha = alpha, .beta = beta, .wide = true});
      }
}

TEST_CASE("gemm kernels give the same bits when few blocks take all tiles in turns") {
  for (const DType t : kernel_formats)
    for (const GemmVersion v : versions) {
      if (!takes(v, t)) continue;
      const Problem p(t, {.batch = 2, .m = 66, .n = 37, .k = 18});
      CHECK(result(p, v)->bytes() == result(p, v, 90, 2)->bytes());
    }
}

TEST_CASE("gemm kernels keep NaN and infinity in their row, and the sign of a product that underflows") {
  for (const DType t : kernel_formats)
    for (const GemmVersion v : versions) {
      if (!takes(v, t)) continue;
      for (const double spoiler : {static_cast<double>(NAN), HUGE_VAL}) {
        Problem p(t, {.m = 20, .n = 9, .k = 18});
        p.as[p.pa.at(0, 3, 17)] = spoiler;
        const auto c = result(p, v);
        for (long long i = 0; i < 20; ++i)
          for (long long j = 0; j < 9; ++j) CHECK(std::isfinite((*c)[p.pc.at(0, i, j)]) == (i != 3));
      }
      if (v != GemmVersion::naive && v != GemmVersion::tiled) continue;
      Problem p(t, {.m = 1, .n = 1, .k = 1});
      const double tiny = t == DType::f64 ? -0x1p-600 : t == DType::f16 ? -0x1p-24 : -0x1p-100;
      p.as[0] = tiny, p.bs[0] = -tiny;
      const auto c = result(p, v);
      CHECK((*c)[0] == 0);
      CHECK(std::signbit((*c)[0]));
    }
}

TEST_CASE("gemm by tf32 rounds its operands to nearest, ties away from zero, and keeps what is not finite") {
  const auto rounded = [](float x) {
    Problem p(DType::f32, {});
    p.as[0] = static_cast<double>(x), p.bs[0] = 1;
    return (*result(p, GemmVersion::mma_tf32))[0];
  };
  CHECK(rounded(1 + 0x1p-11f) == 1 + 0x1p-10);
  CHECK(rounded(-1 - 0x1p-11f) == -1 - 0x1p-10);
  CHECK(rounded(1 + 0x1.ffep-12f) == 1);
  CHECK(rounded(1 + 3 * 0x1p-11f) == 1 + 0x1p-9);
  CHECK(rounded(0x1.fffffep0f) == 2);
  CHECK(rounded(0x1.fffffep127f) == HUGE_VAL);
  CHECK(rounded(-HUGE_VALF) == -HUGE_VAL);
  CHECK(std::isnan(rounded(NAN)));
}

TEST_CASE("gemm launches stay within a grid, and take every output of a small problem once") {
  const auto blocks = [](long long batch, long long m, long long n, GemmVersion v, int step = 0) {
    GemmArgs g = {};
    g.batch = batch, g.m = m, g.n = n, g.k = 1, g.step = step;
    return kernels::gemm_launch(g, v).grid_x;
  };
  CHECK(blocks(1, 1, 1, GemmVersion::naive) == 1);
  CHECK(blocks(1, 257, 1, GemmVersion::naive) == 2);
  CHECK(blocks(2, 65, 64, GemmVersion::tiled) == 4);
  CHECK(blocks(1, 16, 33, GemmVersion::mma) == 2);
  CHECK(blocks(1, 32, 1, GemmVersion::split_k) == 1);
  CHECK(blocks(1, 33, 1, GemmVersion::split_k) == 2);
  CHECK(blocks(1, 33, 1, GemmVersion::split_k, 1) == 1);
  CHECK(blocks(1, 0, 5, GemmVersion::naive) == 0);
  CHECK(blocks(1, 1ll << 31, 1, GemmVersion::tiled) == 1u << 25);
  CHECK(blocks(1 << 20, 1, 1, GemmVersion::mma) == 1u << 18);
  for (const GemmVersion v : versions) CHECK(blocks(1, 1ll << 24, 1ll << 24, v) == 2147483647);
}

}  // namespace assay::emulator
