// SPDX-License-Identifier: Apache-2.0
// Which decision rules of other test harnesses see which faults: prints the table that the README shows.
// Each rule is written from its formula, with the input fill that its tool uses, and is given a reference as good as its
// tool can have: correct fp32 sums in another order than the result under test. (Several of the tools take that reference
// from the device under test, where a fault common to both is seen by none of them.)
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>

#include "reference/bound.hpp"
#include "reference/compare.hpp"
#include "rival_trial.hpp"

using namespace assay;
using namespace assay::rivals;

namespace {

constexpr int seeds = 20, caught_from = 18;

template <class Good>
bool all_good(const Values& got, const Values& reference, Good good) {
  for (int e = 0; e < elements; ++e)
    if (!good(static_cast<double>(got[e]), static_cast<double>(reference[e]))) return false;
  return true;
}

/// oneDNN, tests/benchdnn/matmul: fill cfg.cpp, threshold 0 against the f32 result rounded to the output format.
/// rocBLAS, clients/include/unit.hpp with rocblas_random.hpp: equality for integer fills.
bool equal(const Trial& t, const Values& got) {
  return all_good(got, t.tree, [](double x, double r) { return x == r; });
}

/// rocBLAS, clients/include/near.hpp: absolute k/10 for bf16 on gfx11 and gfx12.
bool rocblas_near(const Trial& t, const Values& got) {
  return all_good(got, t.tree, [](double x, double r) { return std::fabs(x - r) <= k * 0.1; });
}

/// CUTLASS, include/cutlass/relatively_equal.h and tools/profiler: epsilon 0.05, nonzero floor 1/256.
bool cutlass(const Trial& t, const Values& got) {
  return all_good(got, t.tree, [](double x, double r) {
    const double size = std::fabs(x) + std::fabs(r), diff = std::fabs(x - r);
    if (x == r) return true;
    return x == 0 || r == 0 || size < 1.0 / 256 ? diff < 0.05 / 256 : diff < 0.05 * size;
  });
}

/// cudnn-frontend, test/python/test_matmul_fuzzer.py: counts what exceeds the tolerance, and NaN exceeds nothing.
bool cudnn_fuzzer(const Trial& t, const Values& got) {
  const double scale = std::max(1.0, std::sqrt(k / 128.0));
  return all_good(got, t.tree,
                  [=](double x, double r) { return !(std::fabs(x - r) > scale * 2e-2 + scale * 1e-2 * std::fabs(r)); });
}

/// ggml, tests/test-backend-ops.cpp: normalised mean square error, 5e-4 for matrix products; NaN fails before it.
bool ggml(const Trial& t, const Values& got) {
  double error = 0, size = 0;
  for (int e = 0; e < elements; ++e) {
    const double r = t.tree_fp32[e], d = got[e] - r;
    error += d * d;
    size += r * r;
  }
  return error / size <= 5e-4;
}

double largest_difference(const Values& x, const Values& y) {
  double most = 0;
  for (int e = 0; e < elements; ++e) {
    const double d = std::fabs(static_cast<double>(x[e]) - y[e]);
    if (!(d <= most)) most = d;  // a NaN stays, as in torch's max
    if (std::isnan(most)) break;
  }
  return most;
}

/// flash-attention, hopper/test_flash_attn.py, forward: no worse than twice a baseline in the same format, plus
/// 2 max|x + 0.3 - 0.3 - x|. The baseline here is healthy: the same product in another order.
bool flash_attention(const Trial& t, const Values& got) {
  double floor = 0;
  for (const float x : t.tree)
    floor = std::max<double>(floor, std::fabs(rounded(t.type, rounded(t.type, rounded(t.type, x + 0.3f) - 0.3f) - x)));
  return largest_difference(got, t.tree) <= 2 * largest_difference(t.split_k, t.tree) + 2 * floor;
}

bool close(const Values& got, const Values& reference, double rtol, double atol) {
  return all_good(got, reference, [=](double x, double r) { return x == r || std::fabs(x - r) <= atol + rtol * std::fabs(r); });
}

/// PyTorch, torch/testing/_comparison.py: assert_close with its default tolerances.
bool assert_close(const Trial& t, const Values& got) {
  return close(got, t.tree, t.type == DType::bf16 ? 1.6e-2 : 1.3e-6, 1e-5);
}

double rms_error(const Trial& t, const Values& x) {
  double sum = 0;
  for (int e = 0; e < elements; ++e) sum += (x[e] - t.expected.value[e]) * (x[e] - t.expected.value[e]);
  return std::sqrt(sum / elements);
}

/// PyTorch, torch/_dynamo/utils.py, same(): allclose, else an RMS error within a multiple of eager's, both against fp64.
bool torch_same(const Trial& t, const Values& got) {
  constexpr double tolerance = 1e-4;
  if (close(got, t.split_k, tolerance, tolerance)) return true;
  return rms_error(t, got) <= (t.type == DType::bf16 ? 3 : 2) * rms_error(t, t.split_k) + tolerance / 10;
}

/// XLA, xla/service/gpu/buffer_comparator.cc at 0.1; fill: xla/service/gpu/stream_executor_util.cc.
bool xla(const Trial& t, const Values& got) {
  return all_good(got, t.tree,
                  [](double x, double r) { return std::fabs(x - r) / (std::max(std::fabs(x), std::fabs(r)) + 1) < 0.1; });
}

/// TransformerEngine, tests/cpp/test_common.cu: wrong when over both limits and not two roundings of one tie (bf16).
/// NaN is over no limit.
bool transformer_engine(const Trial& t, const Values& got) {
  const bool narrow = t.type == DType::bf16;
  const double atol = narrow ? 1e-5 : 1e-6, rtol = narrow ? 1e-2 : 5e-6;
  return all_good(got, t.tree, [=](double x, double r) {
    const double diff = std::fabs(x - r);
    if (!(diff > atol && (r == 0 || diff / std::fabs(r) > rtol))) return true;
    const double middle = (x + r) / 2, step = std::fabs(middle) * 1e-6;
    return narrow && round_to(DType::bf16, middle - step) == std::min(x, r) &&
           round_to(DType::bf16, middle + step) == std::max(x, r);
  });
}

/// Polygraphy, comparator/compare.py and data_loader.py: wrong when over 1e-5 absolute and over 1e-5 relative, or NaN.
bool polygraphy(const Trial& t, const Values& got) {
  return all_good(got, t.tree, [](double x, double r) {
    const double diff = std::fabs(x - r);
    return diff <= 1e-5 || diff <= 1e-5 * std::fabs(r);
  });
}

/// gpu-burn, compare.cu: counts |first - later| > 1e-3 between results of the same device. The faults here are
/// deterministic, so the later result is the same one; NaN is over no limit.
bool gpu_burn(const Trial&, const Values& got) {
  return all_good(got, got, [](double x, double again) { return !(std::fabs(x - again) > 1e-3); });
}

/// DCGM diagnostic plugin: the same comparison, and a count of NaN.
bool dcgm(const Trial& t, const Values& got) {
  return gpu_burn(t, got) && std::ranges::none_of(got, [](float x) { return std::isnan(x); });
}

/// This tool: fp64 truth, derived bound, RMS gate; what the judge calls fail or suspect is not accepted.
bool assay_rule(const Trial& t, const Values& got, Family family) {
  std::vector<std::byte> storage(got.size() * size_bytes(t.type));
  for (std::size_t e = 0; e < got.size(); ++e)
    store_bits(t.type, storage.data() + e * size_bytes(t.type), encode(t.type, got[e]));
  const Arithmetic arithmetic{.operand = t.type, .output = t.type};
  const Bound bound = product_sum_bound(t.expected, arithmetic, exchangeable(family), exact(family));
  const Discrepancy d = compare(output(t.type), storage, t.expected, bound, arithmetic, encode(t.type, -12345.0), true);
  return d.bad == 0 && d.over_iid == 0 && !d.rms_exceeded;
}
bool assay_exact(const Trial& t, const Values& got) {
  return assay_rule(t, got, Family::integer);
}
bool assay_real(const Trial& t, const Values& got) {
  return assay_rule(t, got, Family::normal);
}

struct Rule {
  const char* name;
  Fill fill;
  bool (*accepts)(const Trial&, const Values&);
  bool has_fp32 = true;
};
const Rule rules[] = {
    {"oneDNN benchdnn matmul, exact fill", Fill::benchdnn, equal},
    {"CUTLASS profiler defaults", Fill::cutlass, cutlass},
    {"rocBLAS integer fill, exact", Fill::rocblas_integers, equal},
    {"rocBLAS gfx11/12 k/10, hpl fill", Fill::rocblas_hpl, rocblas_near, false},
    {"cudnn-frontend matmul fuzzer", Fill::cudnn, cudnn_fuzzer},
    {"ggml NMSE 5e-4", Fill::ggml, ggml},
    {"flash-attention 2x healthy baseline", Fill::normal, flash_attention, false},
    {"torch assert_close defaults", Fill::normal, assert_close},
    {"torch same() RMSE", Fill::normal, torch_same},
    {"XLA comparator 0.1", Fill::zero_to_one, xla},
    {"TransformerEngine C++ limits", Fill::transformer_engine, transformer_engine},
    {"Polygraphy 1e-5/1e-5", Fill::zero_to_one, polygraphy},
    {"gpu-burn self-compare", Fill::zero_to_one, gpu_burn},
    {"DCGM self-compare + NaN count", Fill::zero_to_one, dcgm},
    {"Assay, real fill", Fill::normal, assay_real},
    {"Assay, exact-integer fill", Fill::assay_integers, assay_exact},
    {"**Assay, both fills**", Fill::normal, nullptr},  // made from the two above
};
constexpr int rule_count = std::size(rules), both = rule_count - 1;
constexpr DType types[] = {DType::bf16, DType::f32};

/// Of one rule and format, over the seeds: [0] false alarms, [1..13] faults refused, and faults that change no bit.
struct Score {
  int refused[faults + 1] = {}, invisible[faults + 1] = {};
};
struct Seen {
  bool refused[rule_count][faults + 1] = {}, invisible[rule_count][faults + 1] = {};
};

void look(const Trial& t, Fill fill, Seen& seen) {
  for (int r = 0; r < both; ++r) {
    if (rules[r].fill != fill || (t.type == DType::f32 && !rules[r].has_fp32)) continue;
    // A seed is a false alarm when any correct order of summation is refused.
    for (const Values* correct : {&t.sequential, &t.split_k, &t.tree})
      if (!rules[r].accepts(t, *correct)) seen.refused[r][0] = true;
    for (int f = 1; f <= faults; ++f) {
      const Values& got = t.faulty[f - 1];
      if (got.empty()) continue;
      seen.refused[r][f] = !rules[r].accepts(t, got);
      seen.invisible[r][f] = got == t.sequential;
    }
  }
}

void combine(Seen& seen) {
  for (int f = 0; f <= faults; ++f) {
    seen.refused[both][f] = seen.refused[both - 1][f] || seen.refused[both - 2][f];
    seen.invisible[both][f] = seen.invisible[both - 1][f] && seen.invisible[both - 2][f];
  }
}

bool exists(int fault, DType t) {
  return fault != 12 || t == DType::f32;
}

std::string caught(const Score& s, DType t) {
  if (s.refused[0] > seeds - caught_from) return "unusable";
  int count = 0;
  for (int f = 1; f <= faults; ++f) count += exists(f, t) && s.refused[f] >= caught_from;
  return std::to_string(count);
}

std::string missed(const Score& s, DType t) {
  if (s.refused[0] > seeds - caught_from) return "-";
  if (caught(s, t) == "0") return "all";
  std::string text;
  for (int f = 1; f <= faults; ++f) {
    if (!exists(f, t) || s.refused[f] >= caught_from) continue;
    text += (text.empty() ? "F" : " F") + std::to_string(f);
    if (s.invisible[f] == seeds)
      text += " inv";
    else if (s.refused[f] > 0)
      text += "(" + std::to_string(s.refused[f]) + ")";
  }
  return text.empty() ? "none" : text;
}

void print(const Score (&score)[2][rule_count]) {
  std::printf("| rule | false alarms of %d, bf16 / fp32 | caught bf16, of 12 | caught fp32, of 13 | missed |\n", seeds);
  std::printf("| --- | --- | --- | --- | --- |\n");
  for (int r = 0; r < rule_count; ++r) {
    const Score &bf16 = score[0][r], &fp32 = score[1][r];
    const bool two = rules[r].has_fp32;
    std::printf("| %s | %d / %s | %s | %s | bf16: %s%s%s |\n", rules[r].name, bf16.refused[0],
                two ? std::to_string(fp32.refused[0]).c_str() : "-", caught(bf16, DType::bf16).c_str(),
                two ? caught(fp32, DType::f32).c_str() : "-", missed(bf16, DType::bf16).c_str(), two ? "; fp32: " : "",
                two ? missed(fp32, DType::f32).c_str() : "");
  }
  std::printf(
      "\nMade by bench/rival_rules: %dx%dx%d, alpha %g, seeds 1-%d, fp32 sums simulated on the CPU, every rule with its tool's "
      "own kind of fill. Caught: refused on at least %d seeds. (s): refused on s seeds. inv: the fault changes no bit under "
      "this fill. Unusable: refuses correct results (sequential, split-k or tree order) on more than %d seeds.\n"
      "F1 one element 0; F2 one element +1 ulp; F3 one NaN; F4 all NaN; F5 all zero; F6 last k lost; F7 last 32 of k lost; "
      "F8 two rows swapped in one 16x8 fragment; F9 alpha lost from column 128 on; F10 split-k of 4 with bf16 partials; "
      "F11 bf16 accumulator every 32 k; F12 operands through TF32 (fp32 only); F13 everything times 1+2^-8.\n",
      m, n, k, static_cast<double>(alpha), seeds, caught_from, seeds - caught_from);
}

}  // namespace

int main() {
  static Seen seen[2][seeds];  // one job writes only the rows of its own fill's rules
#pragma omp parallel for schedule(dynamic) collapse(3)
  for (int type = 0; type < 2; ++type)
    for (int seed = 0; seed < seeds; ++seed)
      for (int fill = 0; fill < fills; ++fill)
        look(make_trial(static_cast<Fill>(fill), types[type], seed + 1), static_cast<Fill>(fill), seen[type][seed]);
  static Score score[2][rule_count];
  for (int type = 0; type < 2; ++type)
    for (int seed = 0; seed < seeds; ++seed) {
      Seen& s = seen[type][seed];
      combine(s);
      for (int r = 0; r < rule_count; ++r)
        for (int f = 0; f <= faults; ++f) {
          score[type][r].refused[f] += s.refused[r][f];
          score[type][r].invisible[f] += s.invisible[r][f];
        }
    }
  print(score);
}
