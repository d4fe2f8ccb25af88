// SPDX-License-Identifier: Apache-2.0
// Runs a target of any op directly, without the runner: host buffers between guards, poisoned output, one call at a time.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "probes/ops/gemm/gemm.hpp"
#include "reference/compare.hpp"

namespace assay::trial {

inline constexpr std::size_t guard = 64;
inline constexpr std::byte guard_byte{0xA5};

/// All of one problem's host memory.
struct Buffers {
  std::vector<std::vector<std::byte>> memory;  // guard, storage, guard
  std::vector<Image> images;

  explicit Buffers(const Problem& p) {
    for (const Operand& o : p.operands) {
      const std::size_t bytes = static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype);
      memory.emplace_back(bytes + 2 * guard, guard_byte);
      images.push_back({memory.back().data() + guard, bytes});
    }
  }
  /// Inputs from `seed`; everything else of every allocation is poison.
  void fill(const Problem& p, std::uint64_t seed, std::byte poison = std::byte{0xFF}) {
    for (std::size_t i = 0; i < images.size(); ++i) {
      std::fill_n(images[i].storage, images[i].bytes, poison);
      if (p.operands[i].access != Access::out)
        assay::fill(p.operands[i], p.fills[i], seed, {images[i].storage, images[i].bytes});
    }
  }
  std::span<const std::byte> storage(std::size_t i) const { return {images[i].storage, images[i].bytes}; }
  std::vector<std::span<const std::byte>> all() const {
    std::vector<std::span<const std::byte>> views;
    for (std::size_t i = 0; i < images.size(); ++i) views.push_back(storage(i));
    return views;
  }
};

/// The main output: C of gemm.
inline std::size_t output_index(const Problem& p) {
  return p.outputs().front();
}

/// A call with the memory it works on.
struct Trial {
  Problem problem;
  Buffers buffers;
  std::unique_ptr<Call> call;

  Trial(const Target& target, const std::string& id, const std::string& variant)
      : problem(make_problem(id)), buffers(problem), call(prepare(target, variant)) {}

  std::unique_ptr<Call> prepare(const Target& target, const std::string& variant) const {
    const TargetSpec spec{.target = target.name, .variant = variant, .library = {}, .environment = {}};
    return target.prepare(problem, spec);
  }
  /// Fills from `seed` and runs; returns the bits of the output's logical elements.
  std::vector<std::uint64_t> run(std::uint64_t seed, std::byte poison = std::byte{0xFF}) {
    buffers.fill(problem, seed, poison);
    call->load(buffers.images);
    call->execute();
    call->store(buffers.images);
    return output();
  }
  std::vector<std::uint64_t> output() const {
    const std::size_t out = output_index(problem);
    const Operand& c = problem.operands[out];
    std::vector<std::uint64_t> bits;
    for (std::int64_t e = 0; e < element_count(c); ++e)
      bits.push_back(load_bits(
          c.dtype, buffers.images[out].storage + storage_index(c, e) * static_cast<std::int64_t>(size_bytes(c.dtype))));
    return bits;
  }
};

/// The true result for the inputs from `seed`.
inline Expected truth(const Problem& p, std::uint64_t seed) {
  Buffers inputs(p);
  inputs.fill(p, seed);
  return find_op(p.id.op).expect(p, inputs.all(), {}).at(0);
}
inline std::vector<std::uint64_t> rounded_truth(const Problem& p, std::uint64_t seed) {
  std::vector<std::uint64_t> bits;
  for (const double v : truth(p, seed).value)
    bits.push_back(encode(p.operands[output_index(p)].dtype, v + 0.0));  // -0 + 0 is +0
  return bits;
}
/// What the judge would find in the output as it is now.
inline Discrepancy judge(const Trial& t, const Expected& expected, const Arithmetic& arithmetic) {
  const std::size_t out = output_index(t.problem);
  const Operand& c = t.problem.operands[out];
  return compare(c, t.buffers.storage(out), expected, find_op(t.problem.id.op).bound(t.problem, 0, expected, arithmetic),
                 arithmetic, ~std::uint64_t{0} >> (64 - format(c.dtype).bits), true);
}

/// Bytes outside the outputs' logical elements that differ from what fill() left there: gaps, guards, inputs.
inline std::int64_t disturbed_bytes(const Trial& t, std::uint64_t seed, std::byte poison = std::byte{0xFF}) {
  Buffers before(t.problem);
  before.fill(t.problem, seed, poison);
  for (const std::size_t out : t.problem.outputs()) {
    const Operand& c = t.problem.operands[out];
    const auto width = static_cast<std::int64_t>(size_bytes(c.dtype));
    for (std::int64_t e = 0; e < element_count(c); ++e) {
      const std::int64_t at = storage_index(c, e) * width;
      std::memcpy(before.images[out].storage + at, t.buffers.images[out].storage + at, static_cast<std::size_t>(width));
    }
  }
  std::int64_t disturbed = 0;
  for (std::size_t i = 0; i < before.memory.size(); ++i)
    for (std::size_t b = 0; b < before.memory[i].size(); ++b) disturbed += before.memory[i][b] != t.buffers.memory[i][b];
  return disturbed;
}

inline std::int64_t differing(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < a.size(); ++i) n += a[i] != b[i];
  return n;
}

/// Every way to lay a gemm out, with an exact fill.
inline std::vector<std::string> exact_layouts(const std::string& formats) {
  std::vector<std::string> ids;
  for (const char* order : {"col", "row"})
    for (const char* ta : {"n", "t"})
      for (const char* tb : {"n", "t"})
        for (const char* rest : {"", ",pada=3,padb=2,padc=1,off=1", ",alpha=-2,beta=1,padc=2", ",batch=3,gap=5",
                                 ",batch=4,mode=pointers,gap=2,beta=-1", ",batch=2,share=a", ",batch=2,share=b,padb=1"})
          ids.push_back(std::string("g1:gemm:m=7,n=5,k=9,order=") + order + ",ta=" + ta + ",tb=" + tb + formats + rest +
                        ",fill=integer");
  for (const char* shape : {"m=1,n=1,k=1", "m=0,n=3,k=2", "m=3,n=0,k=2,batch=3,gap=1", "m=3,n=2,k=0", "m=3,n=2,k=0,beta=1",
                            "m=3,n=2,k=4,batch=0", "m=3,n=4,k=5,alpha=0", "m=3,n=4,k=5,alpha=0,beta=2"})
    ids.push_back(std::string("g1:gemm:") + shape + formats + ",fill=integer");
  return ids;
}

/// The target gives exactly the true product, and touches nothing else.
inline void require_exact(const Target& target, const std::string& variant, const std::string& id) {
  CAPTURE(id);
  CAPTURE(variant);
  Trial t(target, id, variant);
  for (const std::uint64_t seed : {1, 2}) {
    std::vector<std::uint64_t> got = t.run(seed);
    for (std::uint64_t& bits : got)
      if (bits << (65 - format(t.problem.operands[output_index(t.problem)].dtype).bits) == 0) bits = 0;  // -0 equals +0
    REQUIRE(got == rounded_truth(t.problem, seed));
    REQUIRE(disturbed_bytes(t, seed) == 0);
  }
}
inline void require_exact_layouts(const Target& target, const std::string& variant, const std::string& formats) {
  for (const std::string& id : exact_layouts(formats)) require_exact(target, variant, id);
}

}  // namespace assay::trial
