// SPDX-License-Identifier: Apache-2.0
// What tests of an op's kernels share: operands of any format in emulated device memory, calls of one or more launches.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "reference/dtype.hpp"
#include "tests/emulator/trial.hpp"

namespace assay::emulator {

/// An operand of exactly `size` elements: an input holds given numbers, an output bytes 0xff (NaN) until a kernel writes it.
class Array {
 public:
  Array(DType t, const std::vector<double>& values) : Array(t, values.size(), true) {
    for (std::size_t i = 0; i < values.size(); ++i) store_bits(t, at(i), encode(t, values[i]));
  }
  Array(DType t, std::size_t size) : Array(t, size, false) {}
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { forget_memory(bytes_.data()); }

  void* data() { return bytes_.data(); }
  DType dtype() const { return dtype_; }
  std::size_t size() const { return bytes_.size() / size_bytes(dtype_); }
  std::uint64_t bits(std::size_t i) const { return load_bits(dtype_, const_cast<Array*>(this)->at(i)); }
  double operator[](std::size_t i) const { return decode(dtype_, bits(i)); }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  /// As before any kernel ran.
  void poison() {
    forget_memory(bytes_.data());
    std::fill(bytes_.begin(), bytes_.end(), std::byte{0xff});
    register_memory(bytes_.data(), bytes_.size(), false);
  }
  bool untouched(std::size_t i) const { return bits(i) == (~0ull >> (64 - 8 * size_bytes(dtype_))); }

 private:
  Array(DType t, std::size_t size, bool initialised) : dtype_(t), bytes_(size * size_bytes(t), std::byte{0xff}) {
    bytes_.reserve(1);  // an address even for no element
    register_memory(bytes_.data(), bytes_.size(), initialised);
  }
  std::byte* at(std::size_t i) { return bytes_.data() + i * size_bytes(dtype_); }

  DType dtype_;
  std::vector<std::byte> bytes_;
};

template <class Args>
struct Step {
  kernels::Launch launch;
  Args args;
};

/// Launches `entry` once per step, under every schedule: no finding, and the same bits in every output. The access checker
/// finds under any one schedule what it finds under another.
template <class Args>
void run(const std::string& entry, const std::vector<Step<Args>>& steps, const std::vector<Array*>& outputs) {
  CAPTURE(entry);
  std::vector<std::vector<std::byte>> first;
  for (const Schedule schedule : all_schedules) {
    if (checked() && schedule != Schedule::random) continue;
    for (Array* const o : outputs) o->poison();
    for (const Step<Args>& s : steps) {
      const Report report = launch_kernel(entry, s.launch, s.args, {.schedule = schedule, .seed = 3});
      CHECK_MESSAGE(report.clean(), text(report));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (first.size() == i) first.push_back(outputs[i]->bytes());
      CHECK(first[i] == outputs[i]->bytes());
    }
  }
}

/// (outer, channel, position) in memory by layout, `gap` elements behind each innermost row.
struct SignalPlace {
  long long outer, channel, position, size;
  SignalPlace(long long count, long long channels, long long positions, bool channels_last, long long gap) {
    const long long row = (channels_last ? channels : positions) + gap;
    outer = row * (channels_last ? positions : channels);
    channel = channels_last ? 1 : row, position = channels_last ? row : 1, size = count * outer;
  }
  std::size_t at(long long o, long long c, long long p) const {
    return static_cast<std::size_t>(o * outer + c * channel + p * position);
  }
};

/// Numbers in -1..1 that look random, a function of (seed, i) alone, rounded to `t`.
inline std::vector<double> numbers(DType t, std::size_t count, std::uint64_t seed) {
  std::vector<double> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t z = seed * 0x9e3779b97f4a7c15u + (i + 1) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u, z = (z ^ z >> 27) * 0x94d049bb133111ebu, z ^= z >> 31;
    out[i] = round_to(t, static_cast<double>(static_cast<std::int64_t>(z)) * 0x1p-63);
  }
  return out;
}

inline constexpr DType kernel_formats[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

/// As names of entries end.
inline std::string suffix(DType t) {
  return t == DType::f32 ? "f32" : t == DType::f64 ? "f64" : t == DType::bf16 ? "bf16" : "f16";
}

/// What sums are held in.
inline DType compute_of(DType t) {
  return t == DType::f64 ? DType::f64 : DType::f32;
}

/// Of an output: what `value` in the compute format becomes when it is stored.
inline std::uint64_t stored(const Array& a, double value) {
  return encode(a.dtype(), value);
}

}  // namespace assay::emulator
