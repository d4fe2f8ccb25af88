// SPDX-License-Identifier: Apache-2.0
#include "third_opinion.hpp"

#include <quadmath.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace assay::third {

namespace {

struct Place {
  std::int64_t outer, row, column;
};
Place split(std::int64_t e, std::int64_t rows, std::int64_t columns) {
  return {e / columns / rows, e / columns % rows, e % columns};
}

/// A scalar reaches the library in the format of its sums.
Quad scalar(const Inputs& in, std::string_view key) {
  return round_to(in.compute() == DType::f64 ? DType::f64 : DType::f32, in.problem->id.real(key));
}

Quad not_a_number() {
  return nanq("");
}

}  // namespace

Quad activated(const std::string& kind, Quad z) {
  if (kind == "relu") return isnanq(z) ? z : z > 0 ? z : Quad{0};
  if (kind == "gelu_erf") return z * (erfcq(-z / sqrtq(2)) / 2);
  if (kind == "gelu_tanh") {
    const Quad w = sqrtq(2 / acosq(-1)) * (z + Quad{44715} / 1000000 * z * z * z);
    return z * (1 / (1 + expq(-2 * w)));  // (1 + tanh w) / 2 without cancellation
  }
  if (kind == "silu") return z / (1 + expq(-z));
  return z;
}

Quad gemm(const Inputs& in, const std::string&, std::int64_t e) {
  const std::int64_t m = in.n("m"), n = in.n("n"), k = in.n("k");
  const Place at = split(e, m, n);
  const Quad alpha = scalar(in, "alpha"), beta = scalar(in, "beta");
  Quad sum = 0;
  if (alpha != 0)
    for (std::int64_t l = 0; l < k; ++l)
      sum += in.at("A", (at.outer * m + at.row) * k + l) * in.at("B", (at.outer * k + l) * n + at.column);
  Quad z = alpha == 0 ? Quad{0} : alpha * sum;
  if (beta != 0) z += beta * in.at("C", e);
  if (in.has("bias")) z += in.at("bias", at.outer * n + at.column);
  return activated(in.word("act"), z);
}

Quad conv1d(const Inputs& in, const std::string&, std::int64_t e) {
  const bool explicit_zeros = in.word("zeros") == "explicit";
  const std::int64_t cin = in.n("cin"), cout = in.n("cout"), groups = in.n("groups"), k = in.n("k"), stride = in.n("stride"),
                     dilation = in.n("dilation"), l = in.n("l"), padl = in.n("padl"), padr = in.n("padr");
  const std::int64_t lout = (l + padl + padr - dilation * (k - 1) - 1) / stride + 1,
                     width = explicit_zeros ? l + padl + padr : l;
  const Place at = split(e, cout, lout);
  const std::int64_t per_group = cin / groups, first = at.row / (cout / groups) * per_group;
  Quad y = in.has("B") ? in.at("B", at.row) : Quad{0};
  for (std::int64_t c = 0; c < per_group; ++c)
    for (std::int64_t t = 0; t < k; ++t) {
      const std::int64_t position = at.column * stride + t * dilation - (explicit_zeros ? 0 : padl);
      if (position < 0 || position >= width) continue;
      y += in.at("W", (at.row * per_group + c) * k + t) * in.at("X", (at.outer * cin + first + c) * width + position);
    }
  return y;
}

Quad conv_transpose1d(const Inputs& in, const std::string&, std::int64_t e) {
  const std::int64_t cin = in.n("cin"), cout = in.n("cout"), groups = in.n("groups"), k = in.n("k"), stride = in.n("stride"),
                     dilation = in.n("dilation"), l = in.n("l"), padl = in.n("padl");
  const std::int64_t lout = (l - 1) * stride + dilation * (k - 1) + 1 - padl - in.n("padr") + in.n("outpad");
  const Place at = split(e, cout, lout);
  const std::int64_t out_per_group = cout / groups, in_per_group = cin / groups, g = at.row / out_per_group;
  Quad y = in.has("B") ? in.at("B", at.row) : Quad{0};
  for (std::int64_t c = g * in_per_group; c < (g + 1) * in_per_group; ++c)
    for (std::int64_t i = 0; i < l; ++i)
      for (std::int64_t t = 0; t < k; ++t)
        if (i * stride + t * dilation - padl == at.column)
          y += in.at("X", (at.outer * cin + c) * l + i) * in.at("W", (c * out_per_group + at.row % out_per_group) * k + t);
  return y;
}

Quad softmax(const Inputs& in, const std::string&, std::int64_t e) {
  const std::int64_t n = in.n("n"), row = e / n;
  Quad sum = 0;
  const Quad x = in.at("X", e);
  // Relative to the largest only so that 113 bits and quad's exponents suffice: a common factor.
  Quad largest = in.at("X", row * n);
  for (std::int64_t j = 0; j < n; ++j) {
    const Quad v = in.at("X", row * n + j);
    if (isnanq(v)) return v;
    if (v > largest) largest = v;
  }
  for (std::int64_t j = 0; j < n; ++j) sum += expq(in.at("X", row * n + j) - largest);
  return in.word("kind") == "log" ? x - largest - logq(sum) : expq(x - largest) / sum;
}

Quad activation(const Inputs& in, const std::string&, std::int64_t e) {
  return activated(in.word("kind"), in.at("X", e) + (in.has("B") ? in.at("B", e % in.n("n")) : Quad{0}));
}

Quad layernorm(const Inputs& in, const std::string& role, std::int64_t e) {
  const std::int64_t n = in.n("n"), row = role == "Y" ? e / n : e;
  const bool rms = in.word("kind") == "rms";
  const Quad eps = static_cast<Quad>(std::strtof(in.word("eps").c_str(), nullptr));
  Quad mean = 0, square = 0;
  for (std::int64_t j = 0; j < n; ++j) mean += in.at("X", row * n + j);
  mean /= n;
  const Quad centre = rms ? Quad{0} : mean;
  for (std::int64_t j = 0; j < n; ++j) {
    const Quad d = in.at("X", row * n + j) - centre;
    square += d * d;
  }
  const Quad rstd = 1 / sqrtq(square / n + eps);
  if (role == "M") return mean;
  if (role == "R") return rstd;
  Quad y = (in.at("X", e) - centre) * rstd;
  if (in.has("G")) y *= in.at("G", e % n);
  if (in.has("B")) y += in.at("B", e % n);
  return y;
}

Quad attention(const Inputs& in, const std::string& role, std::int64_t e) {
  const auto or_else = [&](std::string_view key, std::int64_t otherwise) { return in.n(key) == 0 ? otherwise : in.n(key); };
  const std::int64_t b = in.n("b"), hq = in.n("hq"), hkv = or_else("hkv", hq), sq = in.n("sq"), skv = or_else("skv", sq),
                     d = in.n("d"), dv = or_else("dv", d);
  const std::string& part = in.word("part");
  const std::int64_t width = role == "O" ? dv : role == "L" ? 1 : skv;
  const std::int64_t column = e % width, i = e / width % sq, h = e / width / sq % hq, entry = e / width / sq / hq;
  const std::int64_t shared = entry * hkv + h / (hq / hkv), query = (entry * hq + h) * sq + i;
  // How many keys this batch entry has, and which of them query i sees.
  std::int64_t length = skv;
  if (in.word("lens") != "full") {
    const std::int64_t variety[] = {skv / 2 + 1, skv - 1, 1, skv, skv - skv / 4};
    length = std::min(std::max<std::int64_t>(variety[entry % 5], std::min<std::int64_t>(1, skv)), skv);
    if (in.word("lens") == "empty" && entry == b - 1) length = 0;
  }
  const std::int64_t diagonal = in.word("mask") == "causal_br" ? i + length - sq : i, window = in.n("window");
  const auto sees = [&](std::int64_t j) {
    return j < length && (in.word("mask") == "none" || j <= diagonal) && (window == 0 || j > diagonal - window);
  };
  const Quad given = in.problem->id.real("scale");
  const Quad scale = round_to(in.compute(), given == 0 ? 1 / std::sqrt(static_cast<double>(d)) : static_cast<double>(given));
  const auto score = [&](std::int64_t j) {
    if (part == "probabilities") return in.at("S", query * skv + j);
    Quad s = 0;
    for (std::int64_t l = 0; l < d; ++l) s += in.at("Q", query * d + l) * in.at("K", (shared * skv + j) * d + l);
    s *= scale;
    if (in.has("bias")) s += in.at("bias", ((in.word("bias") == "head" ? h : 0) * sq + i) * skv + j);
    return s;
  };
  if (part == "scores") return sees(column) ? score(column) : -HUGE_VALQ;
  if (part == "context") {
    Quad o = 0;
    for (std::int64_t j = 0; j < skv; ++j) o += in.at("P", query * skv + j) * in.at("V", (shared * skv + j) * dv + column);
    return o;
  }
  std::vector<Quad> scores(static_cast<std::size_t>(skv), -HUGE_VALQ);
  Quad largest = -HUGE_VALQ;
  for (std::int64_t j = 0; j < skv; ++j) {
    if (!sees(j)) continue;
    const Quad s = scores[static_cast<std::size_t>(j)] = score(j);
    if (isnanq(s) || (isinfq(s) != 0 && s > 0)) return not_a_number();
    largest = std::max(largest, s);
  }
  Quad sum = 0, weighted = 0;
  for (std::int64_t j = 0; j < skv; ++j) {
    const Quad s = scores[static_cast<std::size_t>(j)];
    if (!sees(j) || isinfq(s) != 0) continue;
    const Quad y = expq(s - largest);
    sum += y;
    if (role == "O") weighted += y * in.at("V", (shared * skv + j) * dv + column);
  }
  if (role == "L") return sum == 0 ? -HUGE_VALQ : largest + logq(sum);
  if (sum == 0) return not_a_number();
  if (role == "O") return weighted / sum;
  return sees(column) ? expq(scores[static_cast<std::size_t>(column)] - largest) / sum : Quad{0};
}

}  // namespace assay::third
