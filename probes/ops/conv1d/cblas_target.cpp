// SPDX-License-Identifier: Apache-2.0
// CBLAS targets of conv1d: the signal is unrolled and multiplied by the library's ?gemm, one product per group, as frameworks
// without a convolution of their own do. The library adds to the bias (beta = 1) and writes into Y itself, gaps and all.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "probes/ops/conv1d/conv1d.hpp"
#include "probes/ops/conv1d/targets.hpp"
#include "probes/ops/gemm/cpu_targets.hpp"

namespace assay::conv1d {

namespace {

constexpr int row_major = 101, no_transpose = 111, transpose = 112;  // as cblas.h numbers them

class CblasCall final : public assay::Call {
 public:
  CblasCall(const Problem& problem, const Cblas& library) : problem_(problem), call_(call_of(problem)), library_(library) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}

  void execute() override {
    switch (call_.in) {
      case DType::f64:
        return convolve<double, double>(&Cblas::dgemm);
      case DType::bf16:
        return convolve<std::uint16_t, float>(&Cblas::sbgemm);
      default:
        return convolve<float, float>(&Cblas::sgemm);
    }
  }

  CallReport report() override {
    CallReport r;
    // Any order of additions, FMA or not, in the format of Y: probes/ops/gemm/cpu_targets.cpp. No promise on NaN, subnormals or
    // repeated bits: the libraries document none.
    r.arithmetic.operand = call_.in;
    r.arithmetic.accumulator = r.arithmetic.split_format = r.arithmetic.output = call_.out;
    r.algorithm = "unrolled signal, gemm per group";
    r.facts = gemm::facts_of(library_);
    return r;
  }

 private:
  /// One batch entry. Channels first: row (channel, tap), column position. Channels last: row position, column (group, tap,
  /// channel), the order of W in memory.
  template <class Element>
  void unroll(std::int64_t entry) {
    const conv1d::Call& c = call_;
    const auto* const x = gemm::first_element<Element>(images_[0], problem_.operands[0]) + entry * c.x.n;
    panel_.assign(static_cast<std::size_t>(c.cin * c.k * c.lout) * sizeof(Element), std::byte{0});
    auto* const panel = reinterpret_cast<Element*>(panel_.data());
    const std::int64_t terms = c.group_in() * c.k;
    for (std::int64_t i = 0; i < c.cin; ++i)
      for (std::int64_t t = 0; t < c.k; ++t) {
        const std::int64_t in_group = i % c.group_in(), group = i / c.group_in();
        Element* to =
            c.channels_last ? panel + group * c.lout * terms + t * c.group_in() + in_group : panel + (i * c.k + t) * c.lout;
        const std::int64_t step = c.channels_last ? terms : 1;
        std::int64_t position = t * c.dilation - c.padl;
        for (std::int64_t j = 0; j < c.lout; ++j, position += c.stride, to += step)
          if (position >= 0 && position < c.l) *to = x[i * c.x.channel + position * c.x.position];
      }
  }

  template <class Element, class Scalar, class Function>
  void convolve(Function multiply) {
    const conv1d::Call& c = call_;
    const std::int64_t terms = c.group_in() * c.k;
    const auto* const w = gemm::first_element<Element>(images_[1], problem_.operands[1]);
    auto* const y = gemm::first_element<Scalar>(images_[c.output()], problem_.operands[c.output()]);
    for (std::int64_t b = 0; b < c.n; ++b) {
      unroll<Element>(b);
      if (c.bias) start_from_bias(y + b * c.y.n);
      for (std::int64_t g = 0; g < c.groups; ++g) {
        const auto* const panel = reinterpret_cast<const Element*>(panel_.data()) + g * terms * c.lout;
        const Element* const weights = w + g * c.group_out() * terms;
        Scalar* const to = y + b * c.y.n + g * c.group_out() * c.y.channel;
        const Scalar beta = c.bias ? 1 : 0;
        if (c.channels_last)
          (library_.*multiply)(row_major, no_transpose, transpose, c.lout, c.group_out(), terms, 1, panel, terms, weights,
                               terms, beta, to, c.y.position);
        else
          (library_.*multiply)(row_major, no_transpose, no_transpose, c.group_out(), c.lout, terms, 1, weights, terms, panel,
                               c.lout, beta, to, c.y.channel);
      }
    }
  }

  template <class Scalar>
  void start_from_bias(Scalar* y) const {
    const conv1d::Call& c = call_;
    const auto width = static_cast<std::int64_t>(size_bytes(c.in));
    const std::byte* const bias = images_[2].storage + problem_.operands[2].offset * width;
    for (std::int64_t o = 0; o < c.cout; ++o) {
      const auto value = static_cast<Scalar>(decode(c.in, load_bits(c.in, bias + o * width)));
      for (std::int64_t j = 0; j < c.lout; ++j) y[o * c.y.channel + j * c.y.position] = value;
    }
  }

  Problem problem_;
  conv1d::Call call_;
  const Cblas& library_;
  std::vector<Image> images_;
  std::vector<std::byte> panel_;
};

std::optional<std::string> refuses(const Problem& problem, const TargetSpec& spec) {
  const conv1d::Call c = call_of(problem);
  const bool plain = c.in == c.out && (c.in == DType::f32 || c.in == DType::f64);
  if (plain || (c.in == DType::bf16 && c.out == DType::f32)) return std::nullopt;
  return fmt::format(
      "a CBLAS has no product of {} into {} ({}); it has f32, f64, and bf16 into f32 where the library exports cblas_sbgemm",
      name(c.in), name(c.out), spec.name());
}

std::unique_ptr<assay::Call> prepare(const Problem& problem, const TargetSpec& spec) {
  const Cblas& library = gemm::open_cblas(spec);
  const conv1d::Call c = call_of(problem);
  if (c.in == DType::bf16 && !library.has_bf16())
    throw Unsupported(library.path() + " exports no cblas_sbgemm: it cannot multiply bf16");
  const std::int64_t largest = std::max({c.group_in() * c.k, c.lout, c.cout, c.y.channel, c.y.position});
  if (!library.ilp64() && largest > std::numeric_limits<std::int32_t>::max())
    throw Unsupported(fmt::format("{} does not fit the 32-bit integers of {}", largest, library.path()));
  return std::make_unique<CblasCall>(problem, library);
}

}  // namespace

Target cblas_target(std::string name, std::string summary) {
  return {std::move(name), std::move(summary), refuses, prepare};
}

}  // namespace assay::conv1d
