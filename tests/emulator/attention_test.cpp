// SPDX-License-Identifier: Apache-2.0
// kernels/attention.cu under the emulator: every version and format against long double and against its documented order.
#include "kernels/attention.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include "tests/emulator/on_device.hpp"
// The language comes before what is written in it: the kernels' exponential and logarithm.
// clang-format off
#include "tests/emulator/cuda.hpp"
#include "kernels/portable.cuh"
// clang-format on

namespace assay::emulator {
namespace {

using kernels::AttentionVersion;

struct Shape {
  long long b = 1, hq = 1, hkv = 1, sq = 1, skv = 1, d = 1, dv = 1, pad = 0, window = 0, bias_heads = 0;
  bool bshd = false, causal = false, bottom_right = false, wide = false;
  std::vector<long long> lengths{};
};

/// (b, heads, s, width) in the order of `bshd`, vectors `pad` elements apart.
struct HeadPlace {
  long long e, h, s, size;
  HeadPlace(const Shape& x, long long heads, long long length, long long width) {
    const long long step = width + x.pad;
    e = heads * length * step, h = x.bshd ? step : length * step, s = x.bshd ? heads * step : step, size = x.b * e;
  }
  std::size_t at(long long entry, long long head, long long position, long long column) const {
    return static_cast<std::size_t>(entry * e + head * h + position * s + column);
  }
};

struct Problem {
  Shape s;
  DType in, c;
  double scale = 0.75;
  HeadPlace pq, pk, pv, po;
  std::vector<double> qs, ks, vs, bs;
  std::unique_ptr<Array> q, k, v, bias;
  Array o, lse;
  std::vector<long long> lengths;

  Problem(DType t, const Shape& shape)
      : s(shape),
        in(t),
        c(compute_of(t)),
        pq(s, s.hq, s.sq, s.d),
        pk(s, s.hkv, s.skv, s.d),
        pv(s, s.hkv, s.skv, s.dv),
        po(s, s.hq, s.sq, s.dv),
        qs(numbers(t, pq.size, 1)),
        ks(numbers(t, pk.size, 2)),
        vs(numbers(t, pv.size, 3)),
        bs(numbers(t, s.bias_heads * s.sq * s.skv, 4)),
        o(s.wide ? DType::f32 : t, po.size),
        lse(c, s.b * s.hq * s.sq),
        lengths(s.lengths) {}
  ~Problem() {
    if (!lengths.empty()) forget_memory(lengths.data());
  }

  void run_version(AttentionVersion version) {
    q = std::make_unique<Array>(in, qs), k = std::make_unique<Array>(in, ks), v = std::make_unique<Array>(in, vs);
    bias = std::make_unique<Array>(in, bs);
    if (!lengths.empty()) register_memory(lengths.data(), lengths.size() * sizeof(long long), true);
    kernels::AttentionArgs g{.q = q->data(),
                             .k = k->data(),
                             .v = v->data(),
                             .bias = s.bias_heads > 0 ? bias->data() : nullptr,
                             .lengths = lengths.empty() ? nullptr : lengths.data(),
                             .o = o.data(),
                             .lse = lse.data(),
                             .workspace = nullptr,
                             .b = s.b,
                             .hq = s.hq,
                             .hkv = s.hkv,
                             .sq = s.sq,
                             .skv = s.skv,
                             .d = s.d,
                             .dv = s.dv,
                             .q_b = pq.e,
                             .q_h = pq.h,
                             .q_s = pq.s,
                             .k_b = pk.e,
                             .k_h = pk.h,
                             .k_s = pk.s,
                             .v_b = pv.e,
                             .v_h = pv.h,
                             .v_s = pv.s,
                             .o_b = po.e,
                             .o_h = po.h,
                             .o_s = po.s,
                             .bias_h = s.bias_heads > 1 ? s.sq * s.skv : 0,
                             .scale = scale,
                             .window = s.window,
                             .causal = s.causal,
                             .bottom_right = s.bottom_right,
                             .o_is_f32 = s.wide,
                             .step = 0};
    const long long bytes = kernels::attention_workspace_bytes(g, version, static_cast<int>(size_bytes(c)));
    Array workspace(c, static_cast<std::size_t>(bytes) / size_bytes(c));
    g.workspace = workspace.data();
    std::vector<Step<kernels::AttentionArgs>> steps;
    for (; g.step < kernels::attention_steps(version); ++g.step)
      if (const kernels::Launch l = kernels::attention_launch(g, version); l.grid_x > 0) steps.push_back({l, g});
    const std::string entry =
        std::string("attention_") + kernels::attention_versions[static_cast<int>(version)].name + "_" + suffix(in);
    run(entry, steps, {&o, &lse, &workspace});
  }

  /// By the definition in probes/ops/attention: the keys that query i of entry e sees.
  std::pair<long long, long long> seen(long long e, long long i) const {
    const long long length = lengths.empty() ? s.skv : lengths[static_cast<std::size_t>(e)];
    const long long diagonal = i + (s.bottom_right ? length - s.sq : 0);
    return {s.window > 0 ? std::max(0ll, diagonal - s.window + 1) : 0, s.causal ? std::min(length, diagonal + 1) : length};
  }
  double bias_at(long long h, long long i, long long j) const {
    return bs[static_cast<std::size_t>(((s.bias_heads > 1 ? h : 0) * s.sq + i) * s.skv + j)];
  }
};

/// Output row and log-sum-exp of one query, in whatever order the function keeps.
template <class C>
struct Result {
  std::vector<C> o;
  C lse = 0;
};

template <class C, class Add>
C score(const Problem& p, long long e, long long h, long long i, long long j, const Add& add) {
  C dot = 0;
  for (long long l = 0; l < p.s.d; ++l)
    dot = add(static_cast<C>(p.qs[p.pq.at(e, h, i, l)]), static_cast<C>(p.ks[p.pk.at(e, h / (p.s.hq / p.s.hkv), j, l)]), dot);
  dot *= static_cast<C>(p.scale);
  return p.s.bias_heads > 0 ? dot + static_cast<C>(p.bias_at(h, i, j)) : dot;
}

template <class C>
C value(const Problem& p, long long e, long long h, long long j, long long column) {
  return static_cast<C>(p.vs[p.pv.at(e, h / (p.s.hq / p.s.hkv), j, column)]);
}

/// The definition.
Result<long double> defined(const Problem& p, long long e, long long h, long long i) {
  const auto [first, last] = p.seen(e, i);
  Result<long double> r{std::vector<long double>(static_cast<std::size_t>(p.s.dv))};
  long double sum = 0;
  for (long long j = first; j < last; ++j) {
    const long double w = expl(score<long double>(p, e, h, i, j, [](auto a, auto b, auto c) { return a * b + c; }));
    sum += w;
    for (long long c = 0; c < p.s.dv; ++c) r.o[static_cast<std::size_t>(c)] += w * value<long double>(p, e, h, j, c);
  }
  for (long double& x : r.o) x /= sum;
  r.lse = logl(sum);
  return r;
}

constexpr auto fuse = [](auto a, auto b, auto c) { return std::fma(a, b, c); };

template <class C>
C log_sum(C largest, C sum) {
  return largest == -kernels::infinity(C()) ? largest : largest + kernels::logarithm(sum);
}

/// kernels::attention_materialised without threads.
template <class C>
Result<C> materialised(const Problem& p, long long e, long long h, long long i) {
  const auto [first, last] = p.seen(e, i);
  std::vector<C> s;
  for (long long j = first; j < last; ++j) s.push_back(score<C>(p, e, h, i, j, fuse));
  C largest = -kernels::infinity(C());
  for (const C x : s) largest = kernels::larger(largest, x);
  std::array<C, 256> part{};
  for (std::size_t j = 0; j < s.size(); ++j) part[j % 256] += s[j] = kernels::exponential(s[j] - largest);
  for (std::size_t half = 128; half > 0; half /= 2)
    for (std::size_t t = 0; t < half; ++t) part[t] += part[t + half];
  Result<C> r{std::vector<C>(static_cast<std::size_t>(p.s.dv), s.empty() ? static_cast<C>(NAN) : C(0)),
              log_sum(largest, part[0])};
  for (std::size_t j = 0; j < s.size(); ++j)
    for (std::size_t c = 0; c < r.o.size(); ++c)
      r.o[c] =
          std::fma(s[j] / part[0], value<C>(p, e, h, first + static_cast<long long>(j), static_cast<long long>(c)), r.o[c]);
  return r;
}

/// kernels::attention_online without threads.
template <class C>
Result<C> online(const Problem& p, long long e, long long h, long long i) {
  const auto [first, last] = p.seen(e, i);
  Result<C> r{std::vector<C>(static_cast<std::size_t>(p.s.dv))};
  C largest = -kernels::infinity(C()), sum = 0;
  for (long long start = first / 32 * 32; start < last; start += 32) {
    std::array<C, 32> s{}, w{};
    C next = largest;
    const long long from = std::max(first, start), to = std::min(last, start + 32);
    for (long long j = from; j < to; ++j) {
      s[static_cast<std::size_t>(j - start)] = score<C>(p, e, h, i, j, fuse);
      next = kernels::larger(next, s[static_cast<std::size_t>(j - start)]);
    }
    if (next == -kernels::infinity(C())) continue;
    for (auto j = static_cast<std::size_t>(from - start); j < static_cast<std::size_t>(to - start); ++j)
      w[j] = kernels::exponential(s[j] - next);
    std::array<C, 32> tree = w;
    for (std::size_t half = 16; half > 0; half /= 2)
      for (std::size_t t = 0; t < half; ++t) tree[t] += tree[t + half];
    const C before = kernels::exponential(largest - next);
    sum = sum * before + tree[0], largest = next;
    for (std::size_t c = 0; c < r.o.size(); ++c) {
      r.o[c] *= before;
      for (long long j = from; j < to; ++j)
        r.o[c] = std::fma(w[static_cast<std::size_t>(j - start)], value<C>(p, e, h, j, static_cast<long long>(c)), r.o[c]);
    }
  }
  for (C& x : r.o) x /= sum;
  r.lse = log_sum(largest, sum);
  return r;
}

/// Equal bits, or both NaN.
bool same(const Array& a, std::size_t at, double value) {
  return std::isnan(value) ? std::isnan(a[at]) : a.bits(at) == stored(a, value);
}

template <class C>
void check_output(const Problem& p, Result<C> (*order)(const Problem&, long long, long long, long long)) {
  const double u = unit_roundoff(p.c), u_out = unit_roundoff(p.o.dtype());
  long long different = 0, written = 0;
  for (long long e = 0; e < p.s.b; ++e)
    for (long long h = 0; h < p.s.hq; ++h)
      for (long long i = 0; i < p.s.sq; ++i) {
        const Result<C> mine = order(p, e, h, i);
        const Result<long double> want = defined(p, e, h, i);
        const auto [first, last] = p.seen(e, i);
        const std::size_t row = static_cast<std::size_t>((e * p.s.hq + h) * p.s.sq + i);
        // Scores of at most d + 1 in size, |v| at most 1.
        const long double bound = (4 * p.s.d + 2 * static_cast<long double>(p.s.skv) + 40) * u;
        different += !same(p.lse, row, mine.lse);
        CHECK((last <= first ? p.lse[row] == -HUGE_VAL : fabsl(p.lse[row] - want.lse) <= bound));
        for (std::size_t c = 0; c < mine.o.size(); ++c, ++written) {
          const std::size_t at = p.po.at(e, h, i, static_cast<long long>(c));
          different += !same(p.o, at, mine.o[c]);
          CHECK((last <= first ? std::isnan(p.o[at])
                               : fabsl(p.o[at] - want.o[c]) <= bound + u_out * (1 + bound) + smallest_subnormal(p.o.dtype())));
        }
      }
  CHECK(different == 0);
  long long untouched = 0;
  for (std::size_t i = 0; i < p.o.size(); ++i) untouched += p.o.untouched(i);
  CHECK(untouched == p.po.size - written);
}

void check(DType t, const Shape& shape) {
  Problem p(t, shape);
  for (const AttentionVersion v : {AttentionVersion::materialised, AttentionVersion::online}) {
    const bool first = v == AttentionVersion::materialised;
    p.run_version(v);
    if (t == DType::f64)
      check_output<double>(p, first ? materialised<double> : online<double>);
    else
      check_output<float>(p, first ? materialised<float> : online<float>);
  }
}

}  // namespace

TEST_CASE("attention has an entry for every version and format") {
  check_entries("attention", kernels::attention_versions);
}

TEST_CASE("attention kernels keep their documented order and agree with long double, in any shape") {
  for (const DType t : kernel_formats) {
    check(t, {});
    check(t, {.b = 2, .hq = 4, .hkv = 2, .sq = 5, .skv = 37, .d = 7, .dv = 3, .pad = 2, .bias_heads = 4});
    check(t, {.hq = 2, .hkv = 1, .sq = 35, .skv = 70, .d = 33, .dv = 67, .bias_heads = 1, .bshd = true});
    check(t, {.sq = 3, .skv = 300, .d = 64, .dv = 64, .wide = size_bytes(t) == 2});
  }
}

TEST_CASE("attention kernels see the keys that masks, windows and lengths leave, and give NaN and -Inf where none is left") {
  for (const DType t : {DType::f32, DType::bf16}) {
    check(t, {.sq = 40, .skv = 40, .d = 3, .dv = 2, .causal = true});
    check(t, {.sq = 40, .skv = 70, .d = 3, .dv = 2, .causal = true, .bottom_right = true});
    check(t, {.sq = 50, .skv = 40, .d = 3, .dv = 2, .causal = true, .bottom_right = true});  // ten queries see nothing
    check(t, {.sq = 70, .skv = 80, .d = 3, .dv = 2, .window = 5, .bias_heads = 1, .causal = true});
    check(t, {.sq = 70, .skv = 80, .d = 3, .dv = 2, .window = 34});
    check(t, {.b = 4, .hq = 2, .sq = 6, .skv = 66, .d = 3, .dv = 2, .lengths = {34, 1, 66, 0}});
    check(t, {.b = 2, .sq = 6, .skv = 9, .d = 3, .dv = 2, .window = 2, .bottom_right = true, .lengths = {4, 9}});
    check(t, {.sq = 2, .skv = 0, .d = 3, .dv = 2});
  }
}

TEST_CASE("attention kernels keep hidden keys out, whatever they hold, and NaN in the rows it belongs to") {
  for (const DType t : {DType::f32, DType::f16})
    for (const AttentionVersion v : {AttentionVersion::materialised, AttentionVersion::online}) {
      Problem p(t, {.sq = 5, .skv = 5, .d = 2, .dv = 3, .causal = true});
      for (long long l = 0; l < 2; ++l) p.ks[p.pk.at(0, 0, 3, l)] = NAN;
      for (long long c = 0; c < 3; ++c) p.vs[p.pv.at(0, 0, 3, c)] = NAN;
      p.run_version(v);
      for (long long i = 0; i < 5; ++i)
        for (long long c = 0; c < 3; ++c) CHECK(std::isnan(p.o[p.po.at(0, 0, i, c)]) == (i >= 3));
    }
}

TEST_CASE("attention kernels: a bias of -Inf hides a key; of -Inf alone or +Inf gives NaN; a huge score outweighs all others") {
  for (const DType t : {DType::f32, DType::f64, DType::bf16})
    for (const AttentionVersion v : {AttentionVersion::materialised, AttentionVersion::online}) {
      Problem p(t, {.sq = 4, .skv = 80, .d = 2, .dv = 3, .bias_heads = 1});
      const auto bias = [&](long long i, long long j) -> double& { return p.bs[static_cast<std::size_t>(i * 80 + j)]; };
      for (long long j = 0; j < 80; ++j) {
        if (j != 50) bias(0, j) = -HUGE_VAL;
        bias(1, j) = -HUGE_VAL;
        if (j == 40) bias(2, j) = HUGE_VAL;
        if (j == 70) bias(3, j) = 8192;
      }
      p.run_version(v);
      for (long long c = 0; c < 3; ++c) {
        CHECK(p.o[p.po.at(0, 0, 0, c)] == p.vs[p.pv.at(0, 0, 50, c)]);
        CHECK(std::isnan(p.o[p.po.at(0, 0, 1, c)]));
        CHECK(std::isnan(p.o[p.po.at(0, 0, 2, c)]));
        CHECK(p.o[p.po.at(0, 0, 3, c)] == p.vs[p.pv.at(0, 0, 70, c)]);
      }
      CHECK(p.lse[1] == -HUGE_VAL);
      CHECK(std::isnan(p.lse[2]));
    }
}

}  // namespace assay::emulator
