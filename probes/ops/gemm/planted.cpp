// SPDX-License-Identifier: Apache-2.0
// "planted": a correct gemm with exactly one fault, through the same path as a real library. Variant "none" has no fault.
// Arithmetic: k in ascending order, one FMA per product in fp32 (fp64 for fp64 operands).
#include "probes/ops/gemm/planted.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reference/philox.hpp"

namespace assay::gemm {

namespace {

constexpr std::uint32_t choice_stream = 0x0FA17;  // Philox stream of the faults' choices, far from the operands' 1, 2, 3

template <typename T>
std::vector<double> ascending_fma(const Work& w, std::int64_t k0, std::int64_t k1) {
  const auto [batch, m, n, k] = std::array{w.call.batch, w.call.m, w.call.n, w.call.k};
  const std::vector<T> a(w.a.begin(), w.a.end()), b(w.b.begin(), w.b.end());
  std::vector<T> sum(static_cast<std::size_t>(batch * m * n), T{0});
  if (k0 < k1)
    for (std::int64_t e = 0; e < batch; ++e)
      add_products(a.data() + e * m * k, b.data() + e * k * n, sum.data() + e * m * n, m, n, k, k0, k1);
  return {sum.begin(), sum.end()};
}

std::vector<double> read_all(const Image& image, DType t, const Layout& at, const Call& c, std::int64_t rows,
                             std::int64_t columns) {
  std::vector<double> all(static_cast<std::size_t>(c.batch * rows * columns));
  for (std::int64_t i = 0; i < c.batch; ++i) {
    const std::int64_t entry = c.pointer_array ? pointer_order(i, c.batch) : i;
    const std::vector<double> one = read_matrix(t, image.storage, at, entry, rows, columns);
    std::copy(one.begin(), one.end(), all.begin() + entry * rows * columns);
  }
  return all;
}

class PlantedCall final : public assay::Call {
 public:
  PlantedCall(const Problem& p, Fault fault) : problem_(p), call_(call_of(p)), fault_(std::move(fault)) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}

  void execute() override {
    Work w{.problem = problem_, .call = call_, .images = images_, .execution = executions_++, .remembered = remembered_};
    if (reads_ab(call_)) {
      w.a = read_all(images_[0], call_.in, layout_a(call_, problem_), call_, call_.m, call_.k);
      w.b = read_all(images_[1], call_.in, layout_b(call_, problem_), call_, call_.k, call_.n);
    }
    if (reads_c(call_)) w.c = read_all(images_[2], call_.out, w.c_layout(), call_, call_.m, call_.n);
    if (fault_.operands) fault_.operands(w);
    w.sum = fault_.sums && reads_ab(call_) ? fault_.sums(w) : partial_sums(w, 0, call_.k);
    w.out.resize(w.sum.size());
    for (std::size_t e = 0; e < w.out.size(); ++e) w.out[e] = scaled(call_, w.sum[e], w.c.empty() ? 0.0 : w.c[e]);
    if (call_.has_epilogue())
      w.each([&](double& out, std::int64_t e, std::int64_t i, std::int64_t j) {
        out = fault_.epilogue ? fault_.epilogue(w, out, e, i, j) : right_epilogue(w, out, e, j);
      });
    if (fault_.results) fault_.results(w);
    for (std::size_t e = 0; e < w.out.size(); ++e)
      if (w.skipped.empty() || !w.skipped[e])
        store_bits(call_.out, w.c_element(static_cast<std::int64_t>(e)), encode(call_.out, w.out[e]));
    if (fault_.memory) fault_.memory(w);
  }

  CallReport report() override {
    const DType compute = compute_format(call_);
    return {.arithmetic = {.operand = call_.in, .accumulator = compute, .output = call_.out},
            .contract = full_contract("planted"),
            .algorithm = "ascending k, one FMA per product",
            .facts = {{"fault", std::string(fault_.what)}}};
  }

 private:
  Problem problem_;
  gemm::Call call_;
  Fault fault_;
  std::vector<Image> images_;
  std::vector<double> remembered_;
  int executions_ = 0;
};

std::vector<Fault> all_faults() {
  std::vector<Fault> all = value_faults();
  for (Fault& f : epilogue_faults()) all.push_back(std::move(f));
  for (Fault& f : conduct_faults()) all.push_back(std::move(f));
  return all;
}

std::optional<Fault> find_fault(const std::string& variant) {
  if (variant == "none") return Fault{.name = "none", .what = "no fault"};
  for (Fault& f : all_faults())
    if (f.name == variant) return std::move(f);
  return std::nullopt;
}

std::optional<std::string> refuses(const Problem& p, const TargetSpec& spec) {
  if (is_integer(p.operands[0].dtype)) return "planted faults compute in floating point";
  if (find_fault(spec.variant)) return std::nullopt;
  std::string known = "none";
  for (const Fault& f : all_faults()) known += fmt::format(", {}", f.name);
  return fmt::format("target planted has no fault \"{}\"; name one as planted:NAME, with NAME one of {}", spec.variant, known);
}

}  // namespace

std::byte* Work::c_element(std::int64_t flat) const {
  const std::int64_t row = flat / call.n;
  return element(call.out, images[2].storage, c_layout().at(row / call.m, row % call.m, flat % call.n));
}

std::int64_t Work::choose(std::int64_t limit, std::uint32_t use) const {
  if (limit <= 0) return 0;
  return static_cast<std::int64_t>(philox_element(problem.seed, choice_stream, use)[0]) % limit;
}

std::int64_t Work::pick() const {
  const auto count = static_cast<std::int64_t>(out.size());
  if (count == 0) return -1;
  const std::int64_t start = choose(count, 0);
  for (std::int64_t step = 0; step < count; ++step)
    if (const std::int64_t e = (start + step) % count; out[static_cast<std::size_t>(e)] != 0) return e;
  return start;
}

void Work::each(const std::function<void(double&, std::int64_t, std::int64_t, std::int64_t)>& change) {
  std::size_t e = 0;
  for (std::int64_t entry = 0; entry < call.batch; ++entry)
    for (std::int64_t i = 0; i < call.m; ++i)
      for (std::int64_t j = 0; j < call.n; ++j) change(out[e++], entry, i, j);
}

std::vector<double> partial_sums(const Work& w, std::int64_t k0, std::int64_t k1) {
  k0 = std::clamp<std::int64_t>(k0, 0, w.call.k), k1 = std::clamp<std::int64_t>(k1, k0, w.call.k);
  if (!reads_ab(w.call)) k0 = k1 = 0;
  return compute_format(w.call) == DType::f64 ? ascending_fma<double>(w, k0, k1) : ascending_fma<float>(w, k0, k1);
}

double right_epilogue(const Work& w, double z, std::int64_t entry, std::int64_t column) {
  return finished(w.call, with_bias(w.call, z, bias_of(w.problem, w.images, entry, column)));
}

void add_rounded(std::vector<double>& to, const std::vector<double>& from, DType format) {
  for (std::size_t e = 0; e < to.size(); ++e) to[e] = round_to(format, to[e] + from[e]);
}

Target planted_target() {
  std::vector<std::string> names;
  for (const Fault& f : all_faults()) names.emplace_back(f.name);
  return {.name = "planted",
          .summary = "a correct gemm with one fault planted (planted:NAME): must be caught",
          .refuses = refuses,
          .prepare = [](const Problem& p, const TargetSpec& spec) -> std::unique_ptr<assay::Call> {
            if (const auto reason = refuses(p, spec)) throw Unsupported(*reason);
            return std::make_unique<PlantedCall>(p, *find_fault(spec.variant));
          },
          .variants = names};
}

std::vector<PlantedFault> planted_faults() {
  // Names and texts are literals, so the views outlive the table they are copied from.
  std::vector<PlantedFault> listed;
  for (const Fault& f : all_faults())
    listed.push_back({.name = f.name,
                      .what = f.what,
                      .cases = f.cases,
                      .may_hide_in_noise = f.may_hide_in_noise,
                      .hangs = f.name == "hang"});
  return listed;
}

}  // namespace assay::gemm
