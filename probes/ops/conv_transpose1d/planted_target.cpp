// SPDX-License-Identifier: Apache-2.0
// "planted": a correct conv_transpose1d with exactly one fault, through the same path as a real library. Variant "none" has
// none.
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "probes/ops/conv_transpose1d/memory.hpp"
#include "probes/ops/variant_table.hpp"

namespace assay::conv_transpose1d {

namespace {

enum class Flaw {
  none,
  dropped_tap,
  doubled_tap,
  flipped_taps,
  channels_exchanged,
  taps_outermost,
  weights_first_group,
  groups_exchanged,
  dilation_ignored,
  wrong_phase,
  crop_exchanged,
  crop_shifted,
  outpad_unwritten,
  outpad_empty,
  holes_unwritten,
  tail_unwritten,
  bias_lost,
  bias_per_tap,
  bias_first_group,
  stale_accumulator,
  added_to_output,
  first_entry_again,
  last_frame_lost,
  last_channel_lost,
  seam_lost,
  columns_in_bf16,
  accumulator_in_bf16,
  operands_in_bf16,
  nan_swallowed,
  subnormals_flushed,
  row_gap_ignored,
  gap_written,
};

struct Fault {
  Flaw flaw;
  std::string_view name, what;
  std::vector<std::string> cases;
};

std::vector<Fault> all_faults() {
  const std::string op = "g1:conv_transpose1d:";
  const auto both = [&](const std::string& rest) { return std::vector<std::string>{op + rest + ",fill=integer", op + rest}; };
  const std::string whole = "n=2,cin=6,cout=8,l=13,k=5,stride=3,dilation=2,padl=1,padr=3,outpad=2,groups=2,bias=1";
  const std::string hifigan = "cin=16,cout=8,l=20,k=16,stride=8,padl=4,padr=4,bias=1",
                    square = "cin=8,cout=8,l=9,k=3,padl=1,padr=1", holes = "cin=3,cout=4,l=9,k=2,stride=5,outpad=4,bias=1",
                    sums = "cin=24,cout=5,l=30,k=8,stride=2,padl=3,padr=3";
  return {
      {Flaw::dropped_tap, "dropped_tap", "the last tap is missing", both(whole)},
      {Flaw::doubled_tap, "doubled_tap", "the middle tap is added twice", both(whole)},
      {Flaw::flipped_taps, "flipped_taps", "taps are applied in reverse order, as in a convolution over X with zeros inserted",
       both(whole)},
      {Flaw::channels_exchanged, "channels_exchanged", "weights of input and output channels are exchanged", both(square)},
      {Flaw::taps_outermost, "taps_outermost", "weights are read as if the tap were the outermost axis", both(whole)},
      {Flaw::weights_first_group, "weights_first_group", "every group uses the weights of the first", both(whole)},
      {Flaw::groups_exchanged, "groups_exchanged", "each group reads the input channels of the next", both(whole)},
      {Flaw::dilation_ignored, "dilation_ignored", "taps lie one frame apart", both(whole)},
      {Flaw::wrong_phase, "wrong_phase", "outputs between two frames use the taps of the mirrored phase", both(hifigan)},
      {Flaw::crop_exchanged, "crop_exchanged", "the crops of the left and the right are exchanged", both(whole)},
      {Flaw::crop_shifted, "crop_shifted", "the left crop is one frame too large", both(whole)},
      {Flaw::outpad_unwritten, "outpad_unwritten", "outputs that output padding adds are not written", both(whole)},
      {Flaw::outpad_empty, "outpad_empty", "outputs that output padding adds get the bias only", both(whole)},
      {Flaw::holes_unwritten, "holes_unwritten", "outputs that no tap reaches are not written", both(holes)},
      {Flaw::tail_unwritten, "tail_unwritten", "what exceeds a multiple of 8 in a row is not written", both(whole)},
      {Flaw::bias_lost, "bias_lost", "the bias is not added", both(whole)},
      {Flaw::bias_per_tap, "bias_per_tap", "the bias is added once with every tap", both(whole)},
      {Flaw::bias_first_group, "bias_first_group", "every group uses the bias of the first", both(whole)},
      {Flaw::stale_accumulator, "stale_accumulator", "later calls add to the sums of the first", both(whole)},
      {Flaw::added_to_output, "added_to_output", "the result is added to what the output held", both(whole)},
      {Flaw::first_entry_again, "first_entry_again", "every batch entry is computed from the first one's X", both(whole)},
      {Flaw::last_frame_lost, "last_frame_lost", "the last frame of X is missing", both(whole)},
      {Flaw::last_channel_lost, "last_channel_lost", "the last input channel of each group is missing", both(sums)},
      {Flaw::seam_lost, "seam_lost", "where two blocks of 8 frames overlap, only the later block's sum is kept", both(hifigan)},
      {Flaw::columns_in_bf16,
       "columns_in_bf16",
       "columns are stored in bf16 before they are added",
       {op + sums + ",in=bf16,out=f32", op + hifigan + ",in=bf16,out=f32,fill=integer"}},
      {Flaw::accumulator_in_bf16,
       "accumulator_in_bf16",
       "the running sum is rounded to bf16 after every tap",
       {op + sums + ",in=bf16,out=f32", op + sums}},
      {Flaw::operands_in_bf16,
       "operands_in_bf16",
       "fp32 operands are rounded to bf16",
       {op + sums + ",fill=reveal", op + sums}},
      {Flaw::nan_swallowed,
       "nan_swallowed",
       "NaN counts as 0",
       {op + square + ",fill=nan_one", op + "cin=1,cout=3,l=4,k=2,fill=nan_one"}},
      {Flaw::subnormals_flushed,
       "subnormals_flushed",
       "subnormal operands and results become 0",
       {op + square + ",fill=subnormal", op + square + ",fill=underflow"}},
      {Flaw::row_gap_ignored, "row_gap_ignored", "rows of X are read as if nothing lay between them", both(sums + ",gapx=3")},
      {Flaw::gap_written, "gap_written", "the element behind each row of Y but the last is overwritten",
       both(sums + ",gapy=2")},
  };
}

class PlantedCall final : public assay::Call {
 public:
  PlantedCall(const Problem& p, Fault fault) : problem_(p), call_(call_of(p)), fault_(std::move(fault)) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override { call_.in == DType::f64 ? run<double>() : run<float>(); }

  CallReport report() override {
    CallReport r;
    r.arithmetic = {
        .operand = call_.in, .accumulator = compute_format(call_), .split_format = compute_format(call_), .output = call_.out};
    r.contract = own_contract("planted");
    r.algorithm = "tap by tap, added in order";
    r.facts["fault"] = std::string(fault_.what);
    return r;
  }

 private:
  bool has(Flaw f) const { return fault_.flaw == f; }
  std::int64_t group_in() const { return call_.cin / call_.groups; }
  std::int64_t group_out() const { return call_.cout / call_.groups; }

  template <class T>
  static T narrowed(T v) {
    return static_cast<T>(round_to(DType::bf16, static_cast<double>(v)));
  }

  /// Where a weight is read; own: input channel within the group, co: output channel within the group.
  std::size_t weight(std::int64_t group, std::int64_t own, std::int64_t co, std::int64_t r) const {
    if (has(Flaw::flipped_taps)) r = call_.k - 1 - r;
    if (has(Flaw::channels_exchanged)) std::swap(own, co);
    if (has(Flaw::weights_first_group)) group = 0;
    if (has(Flaw::wrong_phase) && r % call_.stride != 0)
      r = (r / call_.stride * call_.stride) + call_.stride - r % call_.stride;
    const std::int64_t ci = group * group_in() + own;
    if (has(Flaw::taps_outermost)) return static_cast<std::size_t>((r * call_.cin + ci) * group_out() + co);
    return static_cast<std::size_t>((ci * group_out() + co) * call_.k + std::min(r, call_.k - 1));
  }

  /// What tap r makes of one input channel, where it falls in a row of Y.
  template <class T>
  void add_tap(const T* x, T w, std::int64_t r, std::vector<T>& column) const {
    const std::int64_t padl = has(Flaw::crop_exchanged) ? call_.padr : call_.padl + has(Flaw::crop_shifted);
    const std::int64_t shift = r * (has(Flaw::dilation_ignored) ? 1 : call_.dilation) - padl;
    for (std::int64_t i = 0; i < call_.l - has(Flaw::last_frame_lost); ++i) {
      const std::int64_t t = i * call_.stride + shift;
      if (t < 0 || t >= call_.lout) continue;
      // The first frame of the next block of 8 falls on t too: what this block adds is overwritten there.
      if (has(Flaw::seam_lost) && (i / 8 + 1) * 8 < call_.l && t + padl >= (i / 8 + 1) * 8 * call_.stride) continue;
      column[static_cast<std::size_t>(t)] += x[i] * w;
    }
  }

  template <class T>
  std::vector<T> row(const Data<T>& d, std::int64_t b, std::int64_t channel) const {
    std::vector<T> y(static_cast<std::size_t>(call_.lout));
    const std::int64_t group = channel / group_out(), co = channel % group_out();
    const std::int64_t from = has(Flaw::groups_exchanged) ? (group + 1) % call_.groups : group;
    const std::int64_t entry = has(Flaw::first_entry_again) ? 0 : b;
    const T bias = has(Flaw::bias_lost) ? T{0} : d.bias[static_cast<std::size_t>(has(Flaw::bias_first_group) ? co : channel)];
    for (std::int64_t r = 0; r < call_.k - has(Flaw::dropped_tap); ++r) {
      std::vector<T> column(y.size());
      for (std::int64_t own = 0; own < group_in() - has(Flaw::last_channel_lost); ++own) {
        const T* x = d.x.data() + (entry * call_.cin + from * group_in() + own) * call_.l;
        add_tap(x, d.w[weight(group, own, co, r)], r, column);
        if (has(Flaw::doubled_tap) && r == call_.k / 2) add_tap(x, d.w[weight(group, own, co, r)], r, column);
      }
      for (std::size_t t = 0; t < y.size(); ++t) {
        y[t] += has(Flaw::columns_in_bf16) ? narrowed(column[t]) : column[t];
        if (has(Flaw::accumulator_in_bf16)) y[t] = narrowed(y[t]);
        if (has(Flaw::bias_per_tap)) y[t] += bias;
      }
    }
    for (std::int64_t t = 0; t < call_.lout; ++t) {
      T& v = y[static_cast<std::size_t>(t)];
      if (has(Flaw::outpad_empty) && t >= call_.lout - call_.outpad) v = 0;
      if (!has(Flaw::bias_per_tap)) v += bias;
    }
    return y;
  }

  bool is_written(std::int64_t t) const {
    if (has(Flaw::outpad_unwritten)) return t < call_.lout - call_.outpad;
    if (has(Flaw::tail_unwritten)) return t < call_.lout / 8 * 8;
    if (!has(Flaw::holes_unwritten)) return true;
    for (std::int64_t r = 0; r < call_.k; ++r) {
      const std::int64_t at = t + call_.padl - r * call_.dilation;
      if (at >= 0 && at % call_.stride == 0 && at / call_.stride < call_.l) return true;
    }
    return false;
  }

  template <class T>
  void run() {
    Place x = place_x(call_);
    if (has(Flaw::row_gap_ignored)) x = {call_.cin * call_.l, call_.l, 1};
    Data<T> d = read_operands<T>(problem_, call_, images_, x, place_w(call_));
    for (auto* operand : {&d.x, &d.w})
      for (T& v : *operand) {
        if (has(Flaw::nan_swallowed) && std::isnan(v)) v = 0;
        if (has(Flaw::operands_in_bf16)) v = narrowed(v);
        if (has(Flaw::subnormals_flushed)) v = flushed(v);
      }
    const Place to = place_y(call_);
    std::vector<double> sums;
    for (std::int64_t b = 0; b < call_.n; ++b)
      for (std::int64_t channel = 0; channel < call_.cout; ++channel) {
        const std::vector<T> y = row(d, b, channel);
        for (std::int64_t t = 0; t < call_.lout; ++t) {
          std::byte* const at = y_element(problem_, call_, images_, to.at(b, channel, t));
          const T result = y[static_cast<std::size_t>(t)];
          double v = static_cast<double>(has(Flaw::subnormals_flushed) ? flushed(result) : result);
          sums.push_back(v);
          if (has(Flaw::stale_accumulator) && !first_sums_.empty()) v += first_sums_[sums.size() - 1];
          if (has(Flaw::added_to_output)) v += decode(call_.out, load_bits(call_.out, at));
          if (is_written(t)) store_bits(call_.out, at, encode(call_.out, v));
        }
        if (has(Flaw::gap_written) && (b + 1 < call_.n || channel + 1 < call_.cout))
          store_bits(call_.out, y_element(problem_, call_, images_, to.at(b, channel, call_.lout)), 0);
      }
    if (first_sums_.empty()) first_sums_ = std::move(sums);
  }

  Problem problem_;
  conv_transpose1d::Call call_;
  Fault fault_;
  std::vector<Image> images_;
  std::vector<double> first_sums_;  // survives from execution to execution
};

}  // namespace

Target planted_target() {
  return planted_table<Fault>(
      "conv_transpose1d", "a correct conv_transpose1d", {Flaw::none, "none", "no fault", {}}, all_faults(),
      [](const Problem& p, const Fault& f) -> std::unique_ptr<assay::Call> { return std::make_unique<PlantedCall>(p, f); });
}

std::vector<PlantedFault> planted_faults() {
  return listed_faults(all_faults());
}

}  // namespace assay::conv_transpose1d
