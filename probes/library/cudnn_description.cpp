// SPDX-License-Identifier: Apache-2.0
// What needs no header of NVIDIA's.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

#include "probes/library/cudnn_graph.hpp"

namespace assay::cudnn {

int Description::add(Tensor t) {
  tensors.push_back(std::move(t));
  return static_cast<int>(tensors.size()) - 1;
}

void Description::add(Step s) {
  steps.push_back(std::move(s));
}

std::vector<const Description*> Description::chain() const {
  std::vector<const Description*> out = {this};
  for (const Description& d : next) out.push_back(&d);
  return out;
}

std::string key(const Description& d) {
  std::string out;
  for (const Tensor& t : d.tensors)
    out += fmt::format("{} {} [{}] [{}] {} {}\n", t.name, name(t.dtype), fmt::join(t.dims, ","), fmt::join(t.strides, ","),
                       t.id, t.value.value_or(0));
  for (const Step& s : d.steps) {
    const Attention& a = s.attention;
    out += fmt::format("{} [{}] [{}] {} {} {} {} {} {} {} {} {} {} {}\n", static_cast<int>(s.op), fmt::join(s.inputs, ","),
                       fmt::join(s.outputs, ","), s.pad_left, s.pad_right, s.stride, s.dilation, a.scale, a.bias,
                       a.query_lengths, a.key_lengths, a.bottom_right, a.left.value_or(-1), a.right.value_or(-1));
  }
  for (const Description& then : d.next) out += "then\n" + key(then);
  return out;
}

std::vector<std::byte> filled(float value, std::int64_t count) {
  const std::vector<float> all(static_cast<std::size_t>(count), value);
  const auto bytes = std::as_bytes(std::span(all));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> integers(const std::vector<std::int64_t>& values) {
  const std::vector<std::int32_t> all(values.begin(), values.end());
  const auto bytes = std::as_bytes(std::span(all));
  return {bytes.begin(), bytes.end()};
}

std::string Candidate::name() const {
  std::string out = fmt::format("eng{}", engine);
  for (const auto& [knob, value] : knobs) out += fmt::format("_{}={}", knob, value);
  return out;
}

std::string Library::version_text() const {
  return fmt::format("{}.{}.{}", version_ / 10000, version_ % 10000 / 100, version_ % 100);
}

}  // namespace assay::cudnn
