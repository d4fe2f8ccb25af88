// SPDX-License-Identifier: Apache-2.0
// Planted faults that make numbers wrong: single elements, fragments and tiles, scalars, lost terms, precision, conventions.
// Each row names the cases that must expose it: an exact-integer fill and a real one where both can.
#include <algorithm>
#include <cmath>
#include <limits>

#include "probes/ops/gemm/planted.hpp"

namespace assay::gemm {

namespace {

/// The same shape with an exact-integer and with a real fill.
std::vector<std::string> both(const std::string& rest) {
  return {"g1:gemm:" + rest + ",fill=integer", "g1:gemm:" + rest + ",fill=normal"};
}
const char* const small_shape = "m=48,n=40,k=64";
const char* const long_k = "m=48,n=40,k=256";

void set_picked(Work& w, double value) {
  if (const std::int64_t e = w.pick(); e >= 0) w.out[static_cast<std::size_t>(e)] = value;
}

void add_bits_to_picked(Work& w, std::uint64_t add) {
  if (const std::int64_t e = w.pick(); e >= 0) {
    std::byte* at = w.c_element(e);
    store_bits(w.call.out, at, load_bits(w.call.out, at) + add);
  }
}

void flip_picked(Work& w, int bit) {
  if (const std::int64_t e = w.pick(); e >= 0 && bit < format(w.call.out).bits) {
    std::byte* at = w.c_element(e);
    store_bits(w.call.out, at, load_bits(w.call.out, at) ^ (std::uint64_t{1} << bit));
  }
}

/// Corner of one whole block of `rows` x `columns`, chosen by the seed; a smaller C has none.
struct Block {
  std::int64_t entry = 0, row = -1, column = 0, rows = 0, columns = 0;
  bool holds(std::int64_t e, std::int64_t i, std::int64_t j) const {
    return row >= 0 && e == entry && i >= row && i < row + rows && j >= column && j < column + columns;
  }
};
Block block(const Work& w, std::int64_t rows, std::int64_t columns) {
  if (w.call.batch == 0 || w.call.m < rows || w.call.n < columns) return {};
  return {.entry = w.choose(w.call.batch, 1),
          .row = w.choose(w.call.m / rows, 2) * rows,
          .column = w.choose(w.call.n / columns, 3) * columns,
          .rows = rows,
          .columns = columns};
}
double at(const std::vector<double>& v, const Work& w, std::int64_t e, std::int64_t i, std::int64_t j) {
  return v[static_cast<std::size_t>((e * w.call.m + i) * w.call.n + j)];
}

/// alpha left at 1 in the outputs that `lost` names.
void lose_alpha(Work& w, bool (*lost)(std::int64_t i, std::int64_t j)) {
  const DType f = compute_format(w.call);
  w.each([&](double& out, std::int64_t e, std::int64_t i, std::int64_t j) {
    if (lost(i, j))
      out = scaled(f, 1.0, at(w.sum, w, e, i, j), round_to(f, w.call.beta), w.c.empty() ? 0.0 : at(w.c, w, e, i, j));
  });
}

/// k cut into four slices whose partial sums are stored in `stored` before they are added.
std::vector<double> four_slices(const Work& w, DType stored) {
  std::vector<double> total(static_cast<std::size_t>(w.call.batch * w.call.m * w.call.n));
  for (std::int64_t s = 0; s < 4; ++s) {
    std::vector<double> part = partial_sums(w, s * w.call.k / 4, (s + 1) * w.call.k / 4);
    for (double& x : part) x = round_to(stored, x);
    add_rounded(total, part, compute_format(w.call));
  }
  return total;
}

/// The running sum is rounded to `accumulator` after every `every` products.
std::vector<double> narrow_accumulator(const Work& w, DType accumulator, std::int64_t every) {
  std::vector<double> total(static_cast<std::size_t>(w.call.batch * w.call.m * w.call.n));
  for (std::int64_t k0 = 0; k0 < w.call.k; k0 += every) add_rounded(total, partial_sums(w, k0, k0 + every), accumulator);
  return total;
}

void convert_operands(Work& w, double (*convert)(double)) {
  for (double& x : w.a) x = convert(x);
  for (double& x : w.b) x = convert(x);
}

double flushed(const Work& w, double x) {
  return std::abs(x) < smallest_normal(compute_format(w.call)) ? 0.0 : x;
}

void add_elements(std::vector<Fault>& t) {
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  t.push_back({.name = "zero_element", .what = "one element is 0", .cases = both(small_shape), .results = [](Work& w) {
                 set_picked(w, 0.0);
               }});
  t.push_back({.name = "one_ulp",
               .what = "one element is one unit in the last place too large (exact fill: every bit counts)",
               .cases = {"g1:gemm:m=48,n=40,k=64,fill=integer"},
               .memory = [](Work& w) { add_bits_to_picked(w, 1); }});
  t.push_back({.name = "one_ulp_in_noise",
               .what = "one element is one unit in the last place too large (real fill only: inside accumulation noise)",
               .cases = {"g1:gemm:m=48,n=40,k=64,fill=normal"},
               .may_hide_in_noise = true,
               .memory = [](Work& w) { add_bits_to_picked(w, 1); }});
  t.push_back({.name = "nan_element", .what = "one element is NaN", .cases = both(small_shape), .results = [nan](Work& w) {
                 set_picked(w, nan);
               }});
  t.push_back({.name = "all_nan", .what = "every element is NaN", .cases = both(small_shape), .results = [nan](Work& w) {
                 std::fill(w.out.begin(), w.out.end(), nan);
               }});
  t.push_back({.name = "all_zero", .what = "every element is 0", .cases = both(small_shape), .results = [](Work& w) {
                 std::fill(w.out.begin(), w.out.end(), 0.0);
               }});
  t.push_back({.name = "all_scaled",
               .what = "every element is 1 + 2^-8 times too large",
               .cases = both(small_shape),
               .results = [](Work& w) {
                 for (double& x : w.out) x *= 1 + 0x1p-8;
               }});
  // Sign, top and bottom of the exponent, then down the fraction. Below bit 12 only the exact fill is sure to show it.
  static constexpr std::pair<int, std::string_view> flips[] = {{31, "bitflip_31"}, {30, "bitflip_30"}, {23, "bitflip_23"},
                                                               {22, "bitflip_22"}, {16, "bitflip_16"}, {12, "bitflip_12"},
                                                               {8, "bitflip_8"},   {4, "bitflip_4"},   {0, "bitflip_0"}};
  for (const auto& [bit, name] : flips)
    t.push_back({.name = name,
                 .what = "one bit of one fp32 element is flipped, bit number in the name",
                 .cases = bit >= 12 ? both(small_shape) : std::vector<std::string>{"g1:gemm:m=48,n=40,k=64,fill=integer"},
                 .memory = [bit](Work& w) { flip_picked(w, bit); }});
}

void add_places(std::vector<Fault>& t) {
  t.push_back({.name = "rows_swapped",
               .what = "two rows of one 16x8 fragment are swapped",
               .cases = both(small_shape),
               .results = [](Work& w) {
                 const Block f = block(w, 16, 8);
                 if (f.row < 0) return;
                 double* row = w.out.data() + (f.entry * w.call.m + f.row + w.choose(8, 4)) * w.call.n + f.column;
                 std::swap_ranges(row, row + 8, row + 8 * w.call.n);  // rows g and g+8 are held by one lane of an mma fragment
               }});
  t.push_back({.name = "one_lane",
               .what = "one lane returns its neighbour's values: rows 3, 11 mod 16, columns 4, 5 mod 8",
               .cases = both(small_shape),
               .results = [](Work& w) {
                 const std::vector<double> right = w.out;
                 w.each([&](double& out, std::int64_t e, std::int64_t i, std::int64_t j) {
                   if (i % 8 == 3 && (j % 8 == 4 || j % 8 == 5)) out = at(right, w, e, i, j - 2);
                 });
               }});
  t.push_back(
      {.name = "tile_unwritten", .what = "one 16x16 tile is never written", .cases = both(small_shape), .results = [](Work& w) {
         const Block tile = block(w, 16, 16);
         w.skipped.assign(w.out.size(), false);
         std::size_t flat = 0;
         w.each([&](double&, std::int64_t e, std::int64_t i, std::int64_t j) { w.skipped[flat++] = tile.holds(e, i, j); });
       }});
  t.push_back(
      {.name = "tile_transposed", .what = "one 16x16 tile is transposed", .cases = both(small_shape), .results = [](Work& w) {
         const Block tile = block(w, 16, 16);
         const std::vector<double> right = w.out;
         w.each([&](double& out, std::int64_t e, std::int64_t i, std::int64_t j) {
           if (tile.holds(e, i, j)) out = at(right, w, e, tile.row + j - tile.column, tile.column + i - tile.row);
         });
       }});
  t.push_back({.name = "alpha_lost_from_column_128",
               .what = "alpha is not applied to columns from 128 on",
               .cases = both("m=16,n=160,k=64,alpha=2"),
               .results = [](Work& w) { lose_alpha(w, [](std::int64_t, std::int64_t j) { return j >= 128; }); }});
  t.push_back({.name = "alpha_lost_beyond_tile",
               .what = "alpha is not applied outside the first 64x64 tile when beta is not 0",
               .cases = both("m=80,n=80,k=64,alpha=-2,beta=1"),
               .results = [](Work& w) {
                 if (w.call.beta != 0) lose_alpha(w, [](std::int64_t i, std::int64_t j) { return i >= 64 || j >= 64; });
               }});
  t.push_back({.name = "batch_stride_ignored",
               .what = "the second batch entry is computed from the first one's A",
               .cases = both("m=16,n=12,k=32,batch=3"),
               .operands = [](Work& w) {
                 const std::int64_t one = w.call.m * w.call.k;
                 if (w.call.batch > 1 && !w.a.empty()) std::copy_n(w.a.begin(), one, w.a.begin() + one);
               }});
}

void add_terms(std::vector<Fault>& t) {
  t.push_back({.name = "last_k_lost",
               .what = "the last product of every sum is missing",
               .cases = both(long_k),
               .sums = [](const Work& w) { return partial_sums(w, 0, w.call.k - 1); }});
  t.push_back({.name = "last_32_k_lost",
               .what = "the last 32 products of every sum are missing",
               .cases = both(long_k),
               .sums = [](const Work& w) { return partial_sums(w, 0, w.call.k - 32); }});
  t.push_back({.name = "k_slice_doubled",
               .what = "products 16 to 31 of every sum are added twice",
               .cases = both(long_k),
               .sums = [](const Work& w) {
                 std::vector<double> sum = partial_sums(w, 0, w.call.k);
                 add_rounded(sum, partial_sums(w, 16, 32), compute_format(w.call));
                 return sum;
               }});
}

void add_precision(std::vector<Fault>& t) {
  // Integer sums up to 2^24 need every bit of an fp32 accumulator, so the exact fill shows the narrow ones too.
  t.push_back({.name = "split_k4_bf16",
               .what = "k is split in four and the partial sums are stored in bf16",
               .cases = both("m=48,n=40,k=256,in=bf16,out=f32"),
               .sums = [](const Work& w) { return four_slices(w, DType::bf16); }});
  t.push_back({.name = "split_k4_fp16",
               .what = "k is split in four and the partial sums are stored in fp16",
               .cases = both("m=48,n=40,k=256,in=f16,out=f32"),
               .sums = [](const Work& w) { return four_slices(w, DType::f16); }});
  t.push_back({.name = "accumulator_bf16_every_32",
               .what = "the accumulator is rounded to bf16 after every 32 products",
               .cases = both("m=48,n=40,k=256,in=bf16,out=f32"),
               .sums = [](const Work& w) { return narrow_accumulator(w, DType::bf16, 32); }});
  t.push_back({.name = "accumulator_bf16",
               .what = "the accumulator is bf16",
               .cases = both("m=16,n=24,k=64,in=bf16,out=f32"),
               .sums = [](const Work& w) { return narrow_accumulator(w, DType::bf16, 1); }});
  t.push_back({.name = "accumulator_fp16",
               .what = "the accumulator is fp16",
               .cases = both("m=16,n=24,k=64,in=f16,out=f32"),
               .sums = [](const Work& w) { return narrow_accumulator(w, DType::f16, 1); }});
  // Small integers survive every conversion: the exact fill that shows it has 13-bit operands.
  const std::vector<std::string> wide = {"g1:gemm:m=48,n=40,k=256,fill=reveal", "g1:gemm:m=48,n=40,k=256,fill=normal",
                                         "g1:gemm:m=48,n=40,k=256,fill=one_hot"};
  t.push_back({.name = "operands_tf32",
               .what = "fp32 operands are rounded to TF32 (nearest even)",
               .cases = wide,
               .operands = [](Work& w) { convert_operands(w, tf32_nearest); }});
  t.push_back({.name = "operands_tf32_truncated",
               .what = "fp32 operands are cut to TF32 (toward zero)",
               .cases = wide,
               .operands = [](Work& w) { convert_operands(w, tf32_toward_zero); }});
  t.push_back({.name = "operands_bf16", .what = "fp32 operands are rounded to bf16", .cases = wide, .operands = [](Work& w) {
                 convert_operands(w, [](double x) { return round_to(DType::bf16, x); });
               }});
  t.push_back({.name = "operands_fp16", .what = "fp32 operands are rounded to fp16", .cases = wide, .operands = [](Work& w) {
                 convert_operands(w, [](double x) { return round_to(DType::f16, x); });
               }});
  t.push_back({.name = "fp64_in_fp32",
               .what = "an fp64 product is computed in fp32",
               .cases = {"g1:gemm:m=24,n=20,k=64,in=f64,fill=integer", "g1:gemm:m=24,n=20,k=64,in=f64,fill=normal"},
               .operands = [](Work& w) { convert_operands(w, [](double x) { return round_to(DType::f32, x); }); },
               .sums = [](const Work& w) { return narrow_accumulator(w, DType::f32, 1); }});
}

void add_conventions(std::vector<Fault>& t) {
  t.push_back({.name = "c_read_at_beta_zero",
               .what = "C is multiplied by beta = 0 instead of being ignored",
               .cases = both(small_shape),
               .results = [](Work& w) {
                 if (w.call.beta != 0) return;
                 for (std::size_t e = 0; e < w.out.size(); ++e)
                   w.out[e] += 0.0 * decode(w.call.out, load_bits(w.call.out, w.c_element(static_cast<std::int64_t>(e))));
               }});
  t.push_back({.name = "ab_read_at_alpha_zero",
               .what = "A*B is computed and multiplied by alpha = 0 instead of being ignored",
               .cases = {"g1:gemm:m=8,n=8,k=16,alpha=0,beta=1,fill=nan_one", "g1:gemm:m=8,n=8,k=16,alpha=0,fill=nan_one"},
               .results = [](Work& w) {
                 if (w.call.alpha != 0 || w.call.k == 0) return;
                 Call c = w.call;
                 c.alpha = 1;
                 Work reading{.problem = w.problem, .call = c, .images = w.images, .remembered = w.remembered};
                 for (std::int64_t e = 0; e < c.batch; ++e) {
                   const auto a = read_matrix(c.in, w.images[0].storage, layout_a(c, w.problem), e, c.m, c.k);
                   const auto b = read_matrix(c.in, w.images[1].storage, layout_b(c, w.problem), e, c.k, c.n);
                   reading.a.insert(reading.a.end(), a.begin(), a.end());
                   reading.b.insert(reading.b.end(), b.begin(), b.end());
                 }
                 const std::vector<double> product = partial_sums(reading, 0, c.k);
                 for (std::size_t e = 0; e < w.out.size(); ++e) w.out[e] += 0.0 * product[e];
               }});
  t.push_back(
      {.name = "beta_ignored", .what = "beta * C is not added", .cases = both("m=48,n=40,k=64,beta=1"), .results = [](Work& w) {
         for (std::size_t e = 0; e < w.out.size(); ++e) w.out[e] = scaled(w.call, w.sum[e], 0.0);
       }});
  t.push_back({.name = "nan_swallowed",
               .what = "a NaN operand counts as 0",
               .cases = {"g1:gemm:m=16,n=12,k=32,fill=nan_one"},
               .operands = [](Work& w) { convert_operands(w, [](double x) { return std::isnan(x) ? 0.0 : x; }); }});
  t.push_back({.name = "subnormals_flushed",
               .what = "subnormal operands and results become 0",
               .cases = {"g1:gemm:m=16,n=12,k=32,fill=subnormal", "g1:gemm:m=16,n=12,k=32,fill=underflow"},
               .operands =
                   [](Work& w) {
                     for (double& x : w.a) x = flushed(w, x);
                     for (double& x : w.b) x = flushed(w, x);
                   },
               .results =
                   [](Work& w) {
                     for (double& x : w.out) x = flushed(w, x);
                   }});
  t.push_back({.name = "stale_second_call",
               .what = "later calls return what the first one computed",
               .cases = both(small_shape),
               .results = [](Work& w) {
                 if (w.execution == 0) w.remembered = w.out;
                 w.out = w.remembered;
               }});
  t.push_back({.name = "repeat_differs",
               .what = "every other call returns one element one unit in the last place off",
               .cases = both(small_shape),
               .memory = [](Work& w) {
                 if (w.execution % 2 == 1) add_bits_to_picked(w, 1);
               }});
}

}  // namespace

std::vector<Fault> value_faults() {
  std::vector<Fault> t;
  add_elements(t);
  add_places(t);
  add_terms(t);
  add_precision(t);
  add_conventions(t);
  return t;
}

}  // namespace assay::gemm
