// SPDX-License-Identifier: Apache-2.0
// The softmax kernels in the emulator against sums in double.
#include "kernels/softmax.hpp"

#include <algorithm>
#include <cmath>

#include "reference/dtype.hpp"
#include "tests/emulator/trial.hpp"

namespace assay::emulator {
namespace {

struct Shape {
  long long rows, n, ldx, ldy;
};
constexpr Shape shapes[] = {{1, 1, 1, 1},       {3, 2, 5, 3},       {2, 31, 31, 40},      {2, 255, 256, 255},
                            {1, 256, 256, 256}, {2, 257, 260, 259}, {1, 1000, 1000, 1000}};

/// Mixed signs, a spread of about 12, the same for every format.
double element(long long i) {
  return static_cast<double>(i * 7919 % 1013 - 506) / 80;
}

/// |got - exact| for values: each exponential within 1.1 ulp of its argument's, which is one subtraction off by half an ulp of
/// the spread; n - 1 additions; one division; one rounding of the output.
void check_row(DType t, const std::vector<std::uint64_t>& x, const std::vector<std::uint64_t>& y, bool log) {
  std::vector<double> value;
  for (const std::uint64_t bits : x) value.push_back(decode(t, bits));
  const double largest = *std::max_element(value.begin(), value.end());
  double sum = 0, spread = 0;
  for (const double v : value) sum += std::exp(v - largest), spread = std::max(spread, largest - v);
  const double u = t == DType::f64 ? 0x1p-53 : 0x1p-24;
  const double n = static_cast<double>(x.size()), relative = (2 * spread + n + 8) * u;
  for (std::size_t j = 0; j < x.size(); ++j) {
    const double exact = log ? value[j] - largest - std::log(sum) : std::exp(value[j] - largest) / sum;
    const double bound = (log ? relative + (std::fabs(exact) + std::log(n + 1)) * 4 * u : relative * exact) +
                         unit_roundoff(t) * std::fabs(exact) + smallest_subnormal(t);
    CHECK(std::fabs(decode(t, y[j]) - exact) <= bound * (1 + 1e-3));  // 1e-3: second order, and double itself for fp64
  }
}

void check_softmax(const std::string& entry, DType t) {
  const std::size_t bytes = size_bytes(t);
  for (const Shape& s : shapes)
    for (const int log : {0, 1}) {
      CAPTURE(entry);
      CAPTURE(s.n);
      CAPTURE(log);
      std::vector<std::byte> x(static_cast<std::size_t>(s.rows * s.ldx) * bytes);
      for (long long i = 0; i < s.rows * s.ldx; ++i)
        store_bits(t, &x[static_cast<std::size_t>(i) * bytes], encode(t, element(i)));
      Memory<std::byte> input(x);
      const kernels::SoftmaxArgs args{input.at(), nullptr, s.rows, s.n, s.ldx, s.ldy, log, 0};
      const std::size_t out_bytes =
          static_cast<std::size_t>((s.rows - 1) * s.ldy + s.n) * bytes;  // nothing behind the last row
      const auto y = clean_result<std::byte>(entry, kernels::softmax_launch(args), args, &kernels::SoftmaxArgs::y, out_bytes);
      for (long long r = 0; r < s.rows; ++r) {
        std::vector<std::uint64_t> row_x, row_y;
        for (long long j = 0; j < s.n; ++j) {
          row_x.push_back(load_bits(t, &x[static_cast<std::size_t>(r * s.ldx + j) * bytes]));
          row_y.push_back(load_bits(t, &y[static_cast<std::size_t>(r * s.ldy + j) * bytes]));
        }
        check_row(t, row_x, row_y, log != 0);
        for (long long j = s.n; r + 1 < s.rows && j < s.ldy; ++j)
          for (std::size_t b = 0; b < bytes; ++b)
            CHECK(y[static_cast<std::size_t>(r * s.ldy + j) * bytes + b] == std::byte{0xff});
      }
    }
}

TEST_CASE("softmax has an entry for every version and format") {
  check_entries("softmax", kernels::softmax_versions);
}

TEST_CASE("softmax kernels agree with double under every schedule, write nothing else and are clean") {
  for (const kernels::Version& v : kernels::softmax_versions)
    for (const auto& [suffix, t] :
         {std::pair{"_f32", DType::f32}, {"_f64", DType::f64}, {"_bf16", DType::bf16}, {"_f16", DType::f16}})
      check_softmax(std::string("softmax_") + v.name + suffix, t);
}

TEST_CASE("softmax kernels make a row with NaN, or of nothing but -Inf, all NaN, and other rows stay") {
  const float inf = INFINITY;
  Memory<float> x(std::vector<float>{1, 2, NAN, 4, -inf, -inf, -inf, -inf, 0, -inf, 0, -inf});
  for (const char* version : {"two_pass", "online"}) {
    const kernels::SoftmaxArgs args{x.at(), nullptr, 3, 4, 4, 4, 0, 0};
    const auto y = clean_result<float>(std::string("softmax_") + version + "_f32", kernels::softmax_launch(args), args,
                                       &kernels::SoftmaxArgs::y, 12);
    for (int j = 0; j < 8; ++j) CHECK(std::isnan(y[j]));
    CHECK(y[8] == 0.5f);
    CHECK(y[9] == 0.f);
  }
}

TEST_CASE("a device that flushes subnormal numbers shows in softmax, and only where asked for") {
  Memory<float> x(std::vector<float>{0, -100, -90, -80});
  for (const bool flush : {false, true}) {
    const kernels::SoftmaxArgs args{x.at(), nullptr, 1, 4, 4, 4, 0, 0};
    const auto y = clean_result<float>("softmax_online_f32", kernels::softmax_launch(args), args, &kernels::SoftmaxArgs::y, 4,
                                       {.flush_subnormals = flush});
    CHECK(y[0] == 1);
    CHECK((y[1] == 0) == flush);
    CHECK((y[2] == 0) == flush);
    CHECK(y[3] > 0);
  }
}

}  // namespace
}  // namespace assay::emulator
