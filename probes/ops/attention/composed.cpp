// SPDX-License-Identifier: Apache-2.0
#include "probes/ops/attention/composed.hpp"

#include <cmath>
#include <limits>

namespace assay::attention {

namespace {

template <class T>
constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

/// One head of an operand as a matrix of T: where it lies when its format is T, else widened into `own`.
template <class T>
Factor<T> factor(const Problem& p, Images images, std::string_view role, std::int64_t e, std::int64_t h, std::vector<T>& own) {
  const Operand& o = p.operand(role);
  const Rows rows(p, images, role);
  if (o.dtype == (sizeof(T) == 4 ? DType::f32 : DType::f64))
    return {reinterpret_cast<const T*>(rows.at(e, h, 0, 0)), o.strides[2]};
  own = rows.head<T>(e, h, 0, o.dims[2]);
  return {own.data(), o.dims[3]};
}

template <class T>
void softmax_rows(std::int64_t rows, std::int64_t n, T* x) {
  for (std::int64_t r = 0; r < rows; ++r, x += n) {
    const T max = row_max(x, n, minus_infinity<T>);
    T sum = 0;
    for (std::int64_t j = 0; j < n; ++j) sum += x[j] = std::exp(x[j] - max);
    for (std::int64_t j = 0; j < n; ++j) x[j] /= sum;
  }
}

}  // namespace

void ComposedCall::softmax(std::int64_t rows, std::int64_t n, float* x) {
  softmax_rows(rows, n, x);
}
void ComposedCall::softmax(std::int64_t rows, std::int64_t n, double* x) {
  softmax_rows(rows, n, x);
}

void ComposedCall::execute() {
  call_.in == DType::f64 ? all_heads<double>() : all_heads<float>();
}

template <class T>
void ComposedCall::write_log_sum_exp(std::int64_t e, std::int64_t h, const std::vector<T>& s) {
  const Rows out(problem_, images_, "L");
  for (std::int64_t i = 0; i < call_.sq; ++i) {
    const T* x = s.data() + i * call_.skv;
    const T max = row_max(x, call_.skv, minus_infinity<T>);
    T sum = 0;
    for (std::int64_t j = 0; j < call_.skv; ++j) sum += std::exp(x[j] - max);
    const T lse = max == minus_infinity<T> ? max : max + std::log(sum);
    out.write(e, h, i, 1, &lse);
  }
}

template <class T>
void ComposedCall::all_heads() {
  const bool scores = call_.part == Part::whole || call_.part == Part::scores;
  const bool context = call_.part == Part::whole || call_.part == Part::context;
  std::vector<T> s(static_cast<std::size_t>(call_.sq * call_.skv)), o(static_cast<std::size_t>(call_.sq * call_.dv));
  std::vector<T> own_a, own_b, bias(static_cast<std::size_t>(call_.skv));
  for (std::int64_t e = 0; e < call_.b; ++e)
    for (std::int64_t h = 0; h < call_.hq; ++h) {
      const std::int64_t shared = call_.kv_head(h);
      if (scores && !s.empty()) {
        const Factor<T> q = factor<T>(problem_, images_, "Q", e, h, own_a),
                        k = factor<T>(problem_, images_, "K", e, shared, own_b);
        multiply(call_.sq, call_.skv, call_.d, static_cast<T>(call_.scale), q, k, true, s.data());
      } else if (!scores) {
        s = Rows(problem_, images_, call_.part == Part::context ? "P" : "S").head<T>(e, h, 0, call_.sq);
      }
      for (std::int64_t i = 0; i < call_.sq; ++i) {
        T* const row = s.data() + i * call_.skv;
        if (call_.bias_heads > 0) {
          Rows(problem_, images_, "bias").read(0, call_.bias_heads > 1 ? h : 0, i, 0, call_.skv, bias.data());
          for (std::int64_t j = 0; j < call_.skv; ++j) row[j] += bias[static_cast<std::size_t>(j)];
        }
        const Keys seen = visible(call_, e, i);
        for (std::int64_t j = 0; j < call_.skv; ++j)
          if (j < seen.first || j >= seen.last) row[j] = minus_infinity<T>;
        if (call_.part == Part::scores) Rows(problem_, images_, "S").write(e, h, i, call_.skv, row);
      }
      if (call_.part == Part::scores) continue;
      if (call_.lse) write_log_sum_exp(e, h, s);
      if (call_.part != Part::context && call_.skv > 0) softmax(call_.sq, call_.skv, s.data());
      if (call_.part == Part::probabilities) {
        for (std::int64_t i = 0; i < call_.sq; ++i)
          Rows(problem_, images_, "P").write(e, h, i, call_.skv, s.data() + i * call_.skv);
        continue;
      }
      if (!context || o.empty()) continue;
      if (call_.skv > 0)
        multiply(call_.sq, call_.dv, call_.skv, T{1}, {s.data(), call_.skv},
                 factor<T>(problem_, images_, "V", e, shared, own_b), false, o.data());
      else  // no key at all: a sum of nothing, divided by nothing
        o.assign(o.size(), call_.part == Part::context ? T{0} : std::numeric_limits<T>::quiet_NaN());
      for (std::int64_t i = 0; i < call_.sq; ++i)
        Rows(problem_, images_, "O").write(e, h, i, call_.dv, o.data() + i * call_.dv);
    }
}

CallReport ComposedCall::report() {
  CallReport r;
  r.arithmetic.operand = call_.in;
  r.arithmetic.accumulator = r.arithmetic.split_format = compute_format(call_);
  r.arithmetic.scores = r.arithmetic.probabilities = compute_format(call_);
  r.arithmetic.output = call_.out;
  r.contract = contract_of("this target's code, probes/ops/attention/composed.cpp, and IEEE 754-2019, 6.2");
  r.algorithm = "product, softmax, product";
  return r;
}

}  // namespace assay::attention
