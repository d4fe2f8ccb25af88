// SPDX-License-Identifier: Apache-2.0
#include "evaluator.hpp"

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference/dtype.hpp"

namespace assay::cudnn_test {

namespace {

using nlohmann::json;
using Index = std::vector<std::int64_t>;

void require(bool good, const std::string& what) {
  if (!good) throw std::runtime_error("graph: " + what);
}

DType format_of(const json& j) {
  const std::string name = j;
  if (name == "FLOAT") return DType::f32;
  if (name == "BFLOAT16") return DType::bf16;
  if (name == "HALF") return DType::f16;
  if (name == "INT32") return DType::i32;
  throw std::runtime_error("graph: format " + name);
}

/// A tensor and its numbers, row-major.
struct Tensor {
  Index dims, strides;
  DType dtype = DType::f32;
  bool inside = false;  // has no memory, whatever its uid; the front end numbers these as it likes
  std::vector<double> values;

  std::int64_t count() const {
    std::int64_t n = 1;
    for (const std::int64_t d : dims) n *= d;
    return n;
  }
  /// Position of an index; a dim of 1 takes every index (broadcast).
  std::size_t at(const Index& index) const {
    require(index.size() == dims.size(), "ranks differ");
    std::int64_t place = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      require(dims[i] == 1 || (index[i] >= 0 && index[i] < dims[i]), "dims do not fit each other");
      place = place * dims[i] + (dims[i] == 1 ? 0 : index[i]);
    }
    return static_cast<std::size_t>(place);
  }
  double& operator[](const Index& index) { return values[at(index)]; }
  double operator[](const Index& index) const { return values[at(index)]; }
};

void for_each(const Index& dims, const std::function<void(const Index&)>& visit) {
  Index index(dims.size(), 0);
  for (const std::int64_t d : dims)
    if (d == 0) return;
  while (true) {
    visit(index);
    std::size_t axis = dims.size();
    while (axis > 0 && ++index[axis - 1] == dims[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

std::byte* element(const Tensor& t, std::byte* first, const Index& index) {
  std::int64_t place = 0;
  for (std::size_t i = 0; i < index.size(); ++i) place += index[i] * t.strides[i];
  return first + place * static_cast<std::int64_t>(size_bytes(t.dtype));
}

class Machine {
 public:
  Machine(const json& graph, const std::map<std::int64_t, std::byte*>& memory) : memory_(memory) {
    for (const json& j : graph.at("tensors")) {
      Tensor t{j.at("dim"),
               j.at("stride"),
               format_of(j.at("data_type").is_null() ? graph["context"]["io_data_type"] : j["data_type"]),
               j.at("is_virtual"),
               {}};
      t.values.assign(static_cast<std::size_t>(t.count()), std::numeric_limits<double>::quiet_NaN());
      const std::int64_t uid = j.at("uid");
      if (j.at("is_pass_by_value").get<bool>()) {
        const auto bits =
            static_cast<std::uint32_t>(std::stoul(j.at("pass_by_value").at("value").get<std::string>(), nullptr, 16));
        t.values.assign(t.values.size(), std::bit_cast<float>(bits));
      } else if (!t.inside) {
        require(memory.contains(uid), "no memory for " + j.dump());
        for_each(t.dims, [&](const Index& i) { t[i] = decode(t.dtype, load_bits(t.dtype, element(t, memory.at(uid), i))); });
      }
      tensors_[uid] = std::move(t);
    }
    for (const json& node : graph.at("nodes")) step(node);
  }

 private:
  Tensor& port(const json& node, const char* side, const char* name) {
    require(node.at(side).contains(name), std::string("a step has no ") + name);
    return tensors_.at(node[side][name].get<std::int64_t>());
  }
  const Tensor& in(const json& node, const char* name) { return port(node, "inputs", name); }
  const Tensor* optional(const json& node, const char* name) {
    return node.at("inputs").contains(name) ? &port(node, "inputs", name) : nullptr;
  }
  /// Stored as soon as it is made.
  void out(const json& node, const char* name, const std::function<double(const Index&)>& value) {
    Tensor& t = port(node, "outputs", name);
    for_each(t.dims, [&](const Index& i) { t[i] = value(i); });
    const std::int64_t uid = node["outputs"][name];
    if (!t.inside)
      for_each(t.dims, [&](const Index& i) { store_bits(t.dtype, element(t, memory_.at(uid), i), encode(t.dtype, t[i])); });
  }

  void step(const json& node) {
    const std::string tag = node.at("tag");
    if (tag == "CONV_FPROP") return convolution(node);
    if (tag == "CONV_DGRAD") return data_gradient(node);
    if (tag == "MATMUL") return matmul(node);
    if (tag == "POINTWISE") return pointwise(node);
    if (tag == "REDUCTION") return reduction(node);
    if (tag == "LAYER_NORM" || tag == "RMS_NORM") return norm(node, tag == "RMS_NORM");
    if (tag == "SDPA") return attention(node);
    throw std::runtime_error("graph: step " + tag);
  }

  /// Output positions of a convolution along axis 2 + a, as cuDNN derives them.
  static std::int64_t positions(const json& node, std::size_t a, std::int64_t data, std::int64_t taps) {
    const std::int64_t room = data + node.at("pre_padding")[a].get<std::int64_t>() +
                              node.at("post_padding")[a].get<std::int64_t>() -
                              node.at("dilation")[a].get<std::int64_t>() * (taps - 1) - 1;
    return room / node.at("stride")[a].get<std::int64_t>() + 1;
  }
  /// Position of the data that tap t of output j reads, along axis 2 + a.
  static std::int64_t position(const json& node, std::size_t a, std::int64_t j, std::int64_t t) {
    return j * node["stride"][a].get<std::int64_t>() - node["pre_padding"][a].get<std::int64_t>() +
           t * node["dilation"][a].get<std::int64_t>();
  }
  static void check_convolution(const json& node, const Tensor& x, const Tensor& w, const Tensor& y) {
    require(node.at("math_mode") == "CROSS_CORRELATION", "a convolution flips its kernel");
    require(x.dims.size() == 4 && x.dims[0] == y.dims[0] && y.dims[1] == w.dims[0] && x.dims[1] % w.dims[1] == 0 &&
                y.dims[1] % (x.dims[1] / w.dims[1]) == 0,
            "channels of a convolution");
    for (const std::size_t a : {0, 1})
      require(y.dims[2 + a] == positions(node, a, x.dims[2 + a], w.dims[2 + a]), "length of a convolution");
  }

  void convolution(const json& node) {
    const Tensor &x = in(node, "X"), &w = in(node, "W");
    check_convolution(node, x, w, port(node, "outputs", "Y"));
    const std::int64_t group_in = w.dims[1], group_out = w.dims[0] / (x.dims[1] / group_in);
    out(node, "Y", [&](const Index& y) {
      double sum = 0;
      for_each({group_in, w.dims[2], w.dims[3]}, [&](const Index& t) {
        const Index at = {y[0], y[1] / group_out * group_in + t[0], position(node, 0, y[2], t[1]),
                          position(node, 1, y[3], t[2])};
        if (at[2] >= 0 && at[2] < x.dims[2] && at[3] >= 0 && at[3] < x.dims[3]) sum += x[at] * w[{y[1], t[0], t[1], t[2]}];
      });
      return sum;
    });
  }

  void data_gradient(const json& node) {
    const Tensor &dy = in(node, "DY"), &w = in(node, "W");
    Tensor& dx = port(node, "outputs", "DX");
    check_convolution(node, dx, w, dy);
    const std::int64_t group_in = w.dims[1], group_out = w.dims[0] / (dx.dims[1] / group_in);
    std::vector<double> sums(dx.values.size(), 0);
    for_each(dy.dims, [&](const Index& y) {
      for_each({group_in, w.dims[2], w.dims[3]}, [&](const Index& t) {
        const Index at = {y[0], y[1] / group_out * group_in + t[0], position(node, 0, y[2], t[1]),
                          position(node, 1, y[3], t[2])};
        if (at[2] >= 0 && at[2] < dx.dims[2] && at[3] >= 0 && at[3] < dx.dims[3])
          sums[dx.at(at)] += dy[y] * w[{y[1], t[0], t[1], t[2]}];
      });
    });
    out(node, "DX", [&](const Index& i) { return sums[dx.at(i)]; });
  }

  void matmul(const json& node) {
    const Tensor &a = in(node, "A"), &b = in(node, "B");
    require(a.dims.size() == 3 && b.dims.size() == 3 && a.dims[2] == b.dims[1], "inner dims of a product");
    const Tensor& c = port(node, "outputs", "C");
    require(c.dims == Index{std::max(a.dims[0], b.dims[0]), a.dims[1], b.dims[2]}, "dims of a product");
    out(node, "C", [&](const Index& i) {
      double sum = 0;
      for (std::int64_t l = 0; l < a.dims[2]; ++l) sum += a[{i[0], i[1], l}] * b[{i[0], l, i[2]}];
      return sum;
    });
  }

  void pointwise(const json& node) {
    const std::string mode = node.at("mode");
    const Tensor& x = in(node, "IN_0");
    const Tensor* const second = optional(node, "IN_1");
    const double root_half = std::sqrt(0.5), tanh_scale = std::sqrt(2 / std::acos(-1.0));
    out(node, "OUT_0", [&](const Index& i) {
      const double u = x[i], v = second ? (*second)[i] : 0;
      require((second != nullptr) == (mode == "ADD" || mode == "SUB" || mode == "MUL" || mode == "DIV"), "operands of " + mode);
      if (mode == "IDENTITY") return u;
      if (mode == "ADD") return u + v;
      if (mode == "SUB") return u - v;
      if (mode == "MUL") return u * v;
      if (mode == "DIV") return u / v;
      if (mode == "EXP") return std::exp(u);
      if (mode == "LOG") return std::log(u);
      if (mode == "RELU_FWD") return u < 0 ? 0.0 : u;
      if (mode == "GELU_FWD") return 0.5 * u * (1 + std::erf(u * root_half));
      if (mode == "GELU_APPROX_TANH_FWD") return 0.5 * u * (1 + std::tanh(tanh_scale * (u + 0.044715 * u * u * u)));
      throw std::runtime_error("graph: pointwise " + mode);
    });
  }

  void reduction(const json& node) {
    const std::string mode = node.at("mode");
    require(mode == "ADD" || mode == "MAX", "reduction " + mode);
    const Tensor& x = in(node, "X");
    const Tensor& y = port(node, "outputs", "Y");
    std::vector<double> made(y.values.size(), mode == "ADD" ? 0 : -std::numeric_limits<double>::infinity());
    for_each(x.dims, [&](const Index& i) {
      double& to = made[y.at(i)];
      to = mode == "ADD" ? to + x[i] : std::isnan(x[i]) || std::isnan(to) ? x[i] + to : std::max(to, x[i]);
    });
    out(node, "Y", [&](const Index& i) { return made[y.at(i)]; });
  }

  /// Over the dims that the scale has.
  void norm(const json& node, bool rms) {
    const Tensor &x = in(node, "X"), &scale = in(node, "SCALE"), &epsilon = in(node, "EPSILON");
    const Tensor* const bias = optional(node, "BIAS");
    Tensor sums;
    for (std::size_t i = 0; i < x.dims.size(); ++i) sums.dims.push_back(scale.dims[i] == 1 ? x.dims[i] : 1);
    sums.values.assign(static_cast<std::size_t>(sums.count()), 0);
    const double n = static_cast<double>(x.count()) / static_cast<double>(sums.count());
    Tensor squares = sums;
    if (!rms) for_each(x.dims, [&](const Index& i) { sums[i] += x[i] / n; });
    for_each(x.dims, [&](const Index& i) { squares[i] += (x[i] - sums[i]) * (x[i] - sums[i]) / n; });
    const auto inverse = [&](const Index& i) { return 1 / std::sqrt(squares[i] + epsilon.values[0]); };
    out(node, "Y", [&](const Index& i) { return (x[i] - sums[i]) * inverse(i) * scale[i] + (bias ? (*bias)[i] : 0); });
    const bool training = node.at("forward_phase") == "TRAINING";
    if (training && !rms) out(node, "MEAN", [&](const Index& i) { return sums[i]; });
    if (training) out(node, "INV_VARIANCE", [&](const Index& i) { return inverse(i); });
  }

  void attention(const json& node) {
    const Tensor &q = in(node, "Q"), &k = in(node, "K"), &v = in(node, "V");
    const Tensor *const bias = optional(node, "Bias"), *const q_lengths = optional(node, "SEQ_LEN_Q"),
                        *const k_lengths = optional(node, "SEQ_LEN_KV");
    require(node.at("padding_mask").get<bool>() == (k_lengths != nullptr), "a padding mask goes with lengths");
    require(!node.at("alibi_mask").get<bool>() && node.at("dropout_probability").is_null(), "an unexpected part of attention");
    require(q.dims[1] % k.dims[1] == 0 && k.dims[1] == v.dims[1] && q.dims[3] == k.dims[3] && k.dims[2] == v.dims[2],
            "dims of attention");
    const double scale = std::bit_cast<float>(
        static_cast<std::uint32_t>(std::stoul(node.at("attn_scale_value").get<std::string>(), nullptr, 16)));
    const std::int64_t sq = q.dims[2], skv = k.dims[2], share = q.dims[1] / k.dims[1];
    std::map<Index, std::vector<double>> weights;  // of one query: exponentials, then their sum and the greatest score
    const auto row = [&](const Index& at) -> const std::vector<double>& {
      const Index query = {at[0], at[1], at[2]};
      std::vector<double>& w = weights[query];
      if (!w.empty()) return w;
      const std::int64_t nq = q_lengths ? static_cast<std::int64_t>((*q_lengths)[{at[0], 0, 0, 0}]) : sq,
                         nk = k_lengths ? static_cast<std::int64_t>((*k_lengths)[{at[0], 0, 0, 0}]) : skv;
      const std::int64_t diagonal = at[2] + (node.at("diagonal_alignment") == "BOTTOM_RIGHT" ? nk - nq : 0);
      double top = -std::numeric_limits<double>::infinity();
      for (std::int64_t j = 0; j < skv; ++j) {
        bool seen = j < nk && at[2] < nq;
        if (!node.at("right_bound").is_null()) seen = seen && j <= diagonal + node["right_bound"].get<std::int64_t>();
        if (!node.at("left_bound").is_null()) seen = seen && j > diagonal - node["left_bound"].get<std::int64_t>();
        double s = 0;
        for (std::int64_t c = 0; c < q.dims[3]; ++c) s += q[{at[0], at[1], at[2], c}] * k[{at[0], at[1] / share, j, c}];
        s = s * scale + (bias ? (*bias)[{at[0], at[1], at[2], j}] : 0);
        w.push_back(seen ? s : -std::numeric_limits<double>::infinity());
        if (seen) top = std::isnan(s) || std::isnan(top) ? s + top : std::max(top, s);
      }
      double total = 0;
      for (double& s : w) total += s = std::exp(s - top);
      w.push_back(total), w.push_back(top);
      return w;
    };
    out(node, "O", [&](const Index& at) {
      const std::vector<double>& w = row(at);
      double sum = 0;
      for (std::int64_t j = 0; j < skv; ++j)
        if (const double p = w[static_cast<std::size_t>(j)]; p != 0) sum += p * v[{at[0], at[1] / share, j, at[3]}];
      return sum / w[static_cast<std::size_t>(skv)];
    });
    if (node.at("generate_stats").get<bool>())
      out(node, "Stats", [&](const Index& at) {
        const std::vector<double>& w = row(at);
        return w[static_cast<std::size_t>(skv) + 1] + std::log(w[static_cast<std::size_t>(skv)]);
      });
  }

  const std::map<std::int64_t, std::byte*>& memory_;
  std::map<std::int64_t, Tensor> tensors_;
};

}  // namespace

void evaluate(const json& graph, const std::map<std::int64_t, std::byte*>& memory) {
  const Machine machine(graph, memory);
}

}  // namespace assay::cudnn_test
