// SPDX-License-Identifier: Apache-2.0
// "planted": a correct direct convolution with exactly one fault, through the same path as a real library. Variant "none" has
// none.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <optional>

#include "probes/ops/conv1d/signal_memory.hpp"
#include "probes/ops/conv1d/targets.hpp"
#include "probes/ops/variant_table.hpp"

namespace assay::conv1d {

namespace {

enum class Flaw {
  none,
  dropped_tap,
  doubled_tap,
  shifted_padding,
  flipped_taps,
  transposed_weights,
  group_before,
  dilation_ignored,
  last_output_early,
  last_output_unwritten,
  lost_bias,
  bias_of_neighbour,
  reads_past_row,
  edge_repeated,
  weights_read_channels_first,
  nan_swallowed,
  subnormals_flushed,
  channel_tail_lost,
  batch_tail_repeated,
  accumulator_16_bits,
  bias_rounded_twice,
  stale_weights,
  gap_written,
};

struct Fault {
  Flaw flaw;
  std::string_view name, what;
  std::vector<std::string> cases;
};

std::vector<Fault> all_faults() {
  const std::string op = "g1:conv1d:";
  const std::string plain = op + "n=2,cin=11,cout=6,l=37,k=5,padl=2,padr=2,fill=integer",
                    real = op + "n=2,cin=11,cout=6,l=37,k=5,padl=2,padr=2",
                    half = op + "n=2,cin=11,cout=6,l=37,k=5,padl=2,padr=2,in=bf16,fill=integer",
                    square = op + "cin=6,cout=6,l=20,k=3,fill=integer",
                    grouped = op + "cin=12,cout=9,l=20,k=3,groups=3,fill=integer",
                    depthwise = op + "cin=10,cout=10,l=24,k=9,groups=10,padl=4,padr=4,fill=integer",
                    dilated = op + "cin=5,cout=4,l=30,k=3,dilation=2,padl=4,fill=integer",
                    strided = op + "cin=5,cout=4,l=33,k=3,stride=2,padl=1,padr=1,fill=integer",
                    biased = op + "cin=5,cout=4,l=30,k=3,bias=1,fill=integer";
  return {
      {Flaw::dropped_tap, "dropped_tap", "one tap is left out", {plain, real, half, depthwise}},
      {Flaw::doubled_tap, "doubled_tap", "one tap is added twice", {plain, real, half, depthwise}},
      {Flaw::shifted_padding,
       "shifted_padding",
       "the signal starts one position late, as if padl were padl + 1",
       {plain, strided}},
      {Flaw::flipped_taps,
       "flipped_taps",
       "taps are applied in reverse: convolution instead of correlation",
       {plain, depthwise}},
      {Flaw::transposed_weights, "transposed_weights", "input and output channel of the weights are exchanged", {square}},
      {Flaw::group_before, "group_before", "each group reads the channels of the group before it", {grouped, depthwise}},
      {Flaw::dilation_ignored, "dilation_ignored", "taps are one position apart, whatever the dilation", {dilated}},
      {Flaw::last_output_early,
       "last_output_early",
       "the last output position of each row reads one input position early",
       {strided, plain}},
      {Flaw::last_output_unwritten,
       "last_output_unwritten",
       "the last output position of each row is not written",
       {strided, plain, real}},
      {Flaw::lost_bias, "lost_bias", "the bias is not added", {biased}},
      {Flaw::bias_of_neighbour, "bias_of_neighbour", "the bias of the next channel is added", {biased}},
      {Flaw::reads_past_row,
       "reads_past_row",
       "taps beyond the end of a row read on into the next channel instead of zeros",
       {plain, dilated + ",padr=4", op + "cin=5,cout=4,l=30,k=31,padl=15,padr=15,fill=integer"}},
      {Flaw::edge_repeated, "edge_repeated", "taps in the padding read the nearest element instead of zeros", {plain, strided}},
      {Flaw::weights_read_channels_first,
       "weights_read_channels_first",
       "weights stored channels last are read as if they were channels first",
       {plain + ",layout=nlc"}},
      {Flaw::nan_swallowed,
       "nan_swallowed",
       "NaN in the signal is treated as zero",
       {op + "cin=3,cout=4,l=9,k=3,padl=1,padr=1,fill=nan_one", op + "cin=1,cout=1,l=4,k=1,fill=nan_one"}},
      {Flaw::subnormals_flushed,
       "subnormals_flushed",
       "subnormal operands and results become 0",
       {op + "cin=11,cout=6,l=20,k=3,fill=subnormal", op + "cin=11,cout=6,l=20,k=3,fill=underflow"}},
      {Flaw::channel_tail_lost,
       "channel_tail_lost",
       "input channels beyond a multiple of 8 are left out",
       {plain, real, op + "cin=9,cout=2,l=10,k=1,fill=integer"}},
      {Flaw::batch_tail_repeated, "batch_tail_repeated", "the last batch entry reads the signal of the one before", {plain}},
      {Flaw::accumulator_16_bits,
       "accumulator_16_bits",
       "sums of 16-bit data are kept in that format instead of fp32",
       {op + "cin=24,cout=6,l=37,k=5,in=bf16,out=f32", op + "cin=24,cout=6,l=37,k=5,in=f16,out=f32"}},
      {Flaw::bias_rounded_twice,
       "bias_rounded_twice",
       "the result is rounded to 16 bits before the bias is added, and again after",
       {op + "cin=24,cout=16,l=100,k=3,bias=1,in=bf16", op + "cin=24,cout=16,l=100,k=3,bias=1,in=f16"}},
      {Flaw::stale_weights, "stale_weights", "later calls use the weights of the first", {plain, real}},
      {Flaw::gap_written, "gap_written", "the element behind each row but the last is overwritten", {plain + ",gapy=2"}},
  };
}

class PlantedCall final : public assay::Call {
 public:
  PlantedCall(const Problem& p, Fault fault) : problem_(p), call_(call_of(p)), fault_(std::move(fault)) {
    if (has(Flaw::weights_read_channels_first)) call_.w = {call_.group_in() * call_.k, call_.k, 1};
  }

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override { call_.in == DType::f64 ? convolve<double>() : convolve<float>(); }

  CallReport report() override {
    CallReport r;
    r.arithmetic = {
        .operand = call_.in, .accumulator = compute_format(call_), .split_format = compute_format(call_), .output = call_.out};
    r.contract = contract_of("planted");
    r.algorithm = "direct";
    r.facts["fault"] = std::string(fault_.what);
    return r;
  }

 private:
  bool has(Flaw f) const { return fault_.flaw == f; }

  template <class T>
  void convolve() {
    const conv1d::Call& c = call_;
    Inputs<T> in = read_inputs<T>(problem_, c, images_);
    if (has(Flaw::stale_weights)) {
      if (first_weights_.empty()) first_weights_.assign(in.w.begin(), in.w.end());
      in.w.assign(first_weights_.begin(), first_weights_.end());
    }
    if (has(Flaw::subnormals_flushed))
      for (auto* operand : {&in.x, &in.w})
        for (T& v : *operand) v = flushed(v);
    std::vector<T> y;
    for (std::int64_t b = 0; b < c.n; ++b)
      for (std::int64_t o = 0; o < c.cout; ++o)
        for (std::int64_t j = 0; j < c.lout; ++j) y.push_back(output(in, b, o, j));
    write_output(problem_, c, images_, y, c.lout - (has(Flaw::last_output_unwritten) ? 1 : 0));
    if (has(Flaw::gap_written)) write_gaps();
  }

  /// The element of the signal that a tap reads; `row`: batch entry and channel as one index.
  template <class T>
  T element(const Inputs<T>& in, std::int64_t row, std::int64_t position) const {
    const conv1d::Call& c = call_;
    const auto at = static_cast<std::size_t>(row * c.l);
    if (position >= 0 && position < c.l) {
      const T v = in.x[at + static_cast<std::size_t>(position)];
      return has(Flaw::nan_swallowed) && std::isnan(v) ? T{0} : v;
    }
    if (has(Flaw::edge_repeated) && c.l > 0) return in.x[at + static_cast<std::size_t>(position < 0 ? 0 : c.l - 1)];
    const std::size_t beyond = at + static_cast<std::size_t>(std::max<std::int64_t>(position, 0));
    if (has(Flaw::reads_past_row) && position >= c.l && beyond < in.x.size()) return in.x[beyond];
    return 0;
  }

  template <class T>
  T output(const Inputs<T>& in, std::int64_t b, std::int64_t o, std::int64_t j) const {
    const conv1d::Call& c = call_;
    std::int64_t group = o / c.group_out();
    if (has(Flaw::group_before)) group = (group + c.groups - 1) % c.groups;
    if (has(Flaw::batch_tail_repeated) && b > 0 && b + 1 == c.n) --b;
    const std::int64_t channels = has(Flaw::channel_tail_lost) && c.group_in() > 8 ? c.group_in() / 8 * 8 : c.group_in();
    std::int64_t start = j * c.stride - c.padl;
    if (has(Flaw::shifted_padding) || (has(Flaw::last_output_early) && j + 1 == c.lout)) --start;
    const auto chosen = static_cast<std::int64_t>(problem_.seed % static_cast<std::uint64_t>(c.k));
    T sum = 0;
    for (std::int64_t i = 0; i < channels; ++i)
      for (std::int64_t t = 0; t < c.k; ++t) {
        if (has(Flaw::dropped_tap) && t == chosen) continue;
        const T product = weight(in, o, i, t) * element(in, b * c.cin + group * c.group_in() + i,
                                                        start + t * (has(Flaw::dilation_ignored) ? 1 : c.dilation));
        sum = rounded(sum + product, Flaw::accumulator_16_bits);
        if (has(Flaw::doubled_tap) && t == chosen) sum += product;
      }
    const T result = with_bias(in, o, sum);
    return has(Flaw::subnormals_flushed) ? flushed(result) : result;
  }

  template <class T>
  T weight(const Inputs<T>& in, std::int64_t o, std::int64_t i, std::int64_t t) const {
    const conv1d::Call& c = call_;
    if (has(Flaw::flipped_taps)) t = c.k - 1 - t;
    if (has(Flaw::transposed_weights)) std::swap(o, i);
    return in.w[static_cast<std::size_t>((o * c.group_in() + i) * c.k + t)];
  }

  template <class T>
  T with_bias(const Inputs<T>& in, std::int64_t o, T sum) const {
    if (!call_.bias || has(Flaw::lost_bias)) return sum;
    if (has(Flaw::bias_of_neighbour)) o = (o + 1) % call_.cout;
    return rounded(sum, Flaw::bias_rounded_twice) + in.bias[static_cast<std::size_t>(o)];
  }

  template <class T>
  T rounded(T v, Flaw f) const {
    return has(f) && size_bytes(call_.in) == 2 ? static_cast<T>(round_to(call_.in, static_cast<double>(v))) : v;
  }

  void write_gaps() const {
    const Operand& y = problem_.operands[call_.output()];
    const auto width = static_cast<std::int64_t>(size_bytes(y.dtype));
    const std::int64_t inner = call_.channels_last ? call_.cout : call_.lout;
    const std::int64_t step = call_.channels_last ? call_.y.position : call_.y.channel;
    for (std::int64_t at = inner; step > inner && at < y.span; at += step)
      std::memset(images_[call_.output()].storage + (y.offset + at) * width, 0, static_cast<std::size_t>(width));
  }

  Problem problem_;
  conv1d::Call call_;
  Fault fault_;
  std::vector<Image> images_;
  std::vector<double> first_weights_;  // survives from execution to execution
};

}  // namespace

Target planted_target() {
  return planted_table<Fault>(
      "conv1d", "a correct conv1d", {Flaw::none, "none", "no fault", {}}, all_faults(),
      [](const Problem& p, const Fault& f) -> std::unique_ptr<assay::Call> { return std::make_unique<PlantedCall>(p, f); },
      [](const Problem& p, const Fault& f) -> std::optional<std::string> {
        const Call c = call_of(p);
        if (f.flaw == Flaw::transposed_weights && c.group_in() != c.cout)
          return "planted fault transposed_weights needs cin/groups = cout";
        return std::nullopt;
      });
}

std::vector<PlantedFault> planted_faults() {
  return listed_faults(all_faults());
}

}  // namespace assay::conv1d
