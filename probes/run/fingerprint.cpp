// SPDX-License-Identifier: Apache-2.0
#include "probes/run/fingerprint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "probes/run/process.hpp"
#include "probes/run/runner.hpp"
#include "probes/run/truth.hpp"
#include "reference/models/probes.hpp"
#include "report/environment.hpp"

namespace assay {

namespace {

constexpr std::int64_t side = 64;                                // of the results: several tiles of the smallest kernels
constexpr std::size_t profile_rows = 128, profile_columns = 16;  // a row for each place of the second mark
constexpr std::int64_t profile_lengths[] = {64, 1000, 8192};

/// As case ids spell it.
std::string_view word(DType in) {
  return in == DType::f32 ? "f32" : in == DType::bf16 ? "bf16" : "f16";
}

/// The target did not answer; what() says why.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One prepared gemm, called with operands of ours.
class Product {
 public:
  Product(const Target& target, const TargetSpec& spec, Worker& worker, Arena& arena, DType in, std::int64_t m, std::int64_t n,
          std::int64_t k, double deadline_s)
      : truth_(fmt::format("g1:gemm:m={},n={},k={},in={},out=f32", m, n, k, word(in))),
        worker_(worker),
        arena_(arena),
        deadline_s_(deadline_s) {
    if (target.refuses)
      if (const auto why = target.refuses(truth_.problem(), spec)) throw Refused("unsupported: " + *why);
    arena_.reserve(truth_.layout().total_bytes);
    ask(to_json(PrepareRequest{to_string(truth_.problem().id, truth_.op().grammar), spec, truth_.layout().regions}));
  }

  /// The case's own inputs.
  void default_inputs() {
    for (std::size_t i = 0; i < 2; ++i) std::ranges::copy(truth_.first().storage[i], storage(i).begin());
  }
  /// value(row, column) for A (i, l) or B (l, j).
  template <class Value>
  void fill(std::size_t operand, Value value) {
    const Operand& o = truth_.problem().operands[operand];
    for (std::int64_t at = 0; at < element_count(o); ++at)
      store_bits(o.dtype, storage(operand).data() + static_cast<std::size_t>(storage_index(o, at)) * size_bytes(o.dtype),
                 encode(o.dtype, value(at / o.dims[2], at % o.dims[2])));
  }
  std::vector<double> multiply() {
    std::ranges::fill(storage(2), std::byte{0xFF});
    report_ = ask({{"do", "execute"}}).report.value_or(CallReport{});
    return gather(operand(2), storage(2));
  }
  std::vector<double> values(std::size_t at) const { return gather(operand(at), storage(at)); }
  std::string output_digest() const { return hex(digest_tensor(operand(2), storage(2))); }
  const CallReport& report() const { return report_; }
  void release() { ask({{"do", "release"}}); }

 private:
  const Operand& operand(std::size_t at) const { return truth_.problem().operands[at]; }
  std::span<std::byte> storage(std::size_t at) const { return arena_.storage(truth_.layout().regions[at]); }

  Reply ask(const nlohmann::json& request) {
    Answer answer = worker_.ask(request, deadline_s_ + truth_.problem().flops / 1e8);
    if (!answer.reply) throw Refused("fault: " + answer.death);
    switch (answer.reply->kind) {
      case ReplyKind::ok:
        return std::move(*answer.reply);
      case ReplyKind::unsupported:
        throw Refused("unsupported: " + answer.reply->reason);
      case ReplyKind::error:
        throw Refused("fault: " + answer.reply->reason);
      default:
        throw Refused("unavailable: " + answer.reply->reason);
    }
  }

  Truth truth_;
  Worker& worker_;
  Arena& arena_;
  double deadline_s_;
  CallReport report_;
};

/// Equal numbers, whatever the sign of zero, or NaN both.
bool same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

/// The answer, and whether every element of the result agrees. Odd rows are negated, so that a row out of place shows.
ProbeAnswer answer_of(std::string_view name, std::string_view what, const std::vector<double>& c, double base, double unit) {
  const auto at = [&](std::size_t i) { return ((i / side % 2 == 0 ? c[i] : -c[i]) - base) / unit; };
  ProbeAnswer a{std::string(name), std::string(what), at(0), true};
  for (std::size_t i = 0; i < c.size(); ++i) a.uniform &= same(at(i), a.value);
  return a;
}

bool may_be(const models::Model& m, DType in) {
  const DType o = m.arithmetic.operand;
  if (o == DType::f32) return true;  // 16-bit operands widened exactly
  if (in == DType::f32) return o == DType::tf32;
  return o == in || (m.name != "v100" && o == DType::bf16);  // A100 and newer treat the two alike
}

void probe_sums(Product& product, DType in, Fingerprint& f) {
  std::vector<models::Probe> probes;
  for (const models::Probe& p : models::addition_probes())
    if (models::representable(p, in)) probes.push_back(p);
  probes.push_back(models::counting_probe(in));
  for (const models::Probe& p : probes) {
    const models::ProbeOperands o = models::operands_of(p);
    product.fill(0, [&](std::int64_t i, std::int64_t l) { return (i % 2 == 0 ? 1 : -1) * o.a[static_cast<std::size_t>(l)]; });
    product.fill(1, [&](std::int64_t l, std::int64_t) { return o.b[static_cast<std::size_t>(l)]; });
    f.sums.push_back(answer_of(p.name, p.what, product.multiply(), p.base, p.unit));
  }
  for (const models::Model& m : models::all_models()) {
    if (!may_be(m, in)) continue;
    bool all = true;
    for (std::size_t i = 0; i < probes.size(); ++i)
      all &= f.sums[i].uniform && same(f.sums[i].value, models::answer(probes[i], m));
    if (all) f.like.emplace_back(m.name);
  }
}

/// What becomes of one fp32 operand that is multiplied by 1.
void probe_operands(Product& product, Fingerprint& f) {
  struct Single {
    const char* what;
    double x;
  };
  constexpr Single singles[] = {{"1 + 2^-23", 1 + 0x1p-23},         {"1 + 2^-11", 1 + 0x1p-11},
                                {"1 + 3 * 2^-12", 1 + 3 * 0x1p-12}, {"1 + 2^-10 + 2^-11", 1 + 0x1p-10 + 0x1p-11},
                                {"1 + 2^-9", 1 + 0x1p-9},           {"2^-30", 0x1p-30}};
  const auto alone = [&](double x, double y) {
    product.fill(0, [&](std::int64_t i, std::int64_t l) { return l != 0 ? 0 : i % 2 == 0 ? x : -x; });
    product.fill(1, [&](std::int64_t l, std::int64_t) { return l == 0 ? y : 0; });
    return product.multiply();
  };
  for (const Single& s : singles) f.operands.push_back(answer_of("operand", s.what, alone(s.x, 1), 0, 1));
  struct Reduction {
    const char* what;
    DType format;
    Rounding rounding;
  };
  constexpr Reduction reductions[] = {{"fp32", DType::f32, Rounding::nearest},
                                      {"tf32, rounded toward zero", DType::tf32, Rounding::toward_zero},
                                      {"tf32, rounded to nearest even", DType::tf32, Rounding::nearest},
                                      {"tf32, rounded to nearest, ties away", DType::tf32, Rounding::nearest_away},
                                      {"bf16", DType::bf16, Rounding::nearest},
                                      {"fp16", DType::f16, Rounding::nearest}};
  for (const Reduction& r : reductions) {
    bool all = true;
    for (std::size_t i = 0; i < std::size(singles); ++i)
      all &= f.operands[i].uniform && f.operands[i].value == round_to(r.format, singles[i].x, r.rounding);
    if (all) f.operands_like.emplace_back(r.what);
  }
  // Three products of bf16 parts lose the 3; six or nine keep it, as fp32 does; tf32 operands keep one.
  const double x = 1 + 0x1p-9 + 0x1p-18;
  f.operands.push_back(answer_of("cross terms", "(1 + 2^-9 + 2^-18)^2 - 1 - 2^-8 in 2^-18", alone(x, x), 1 + 0x1p-8, 0x1p-18));
  f.operands.push_back(answer_of("subnormal", "2^-130 in 2^-130", alone(0x1p-130, 1), 0, 0x1p-130));
}

void look_at_default_inputs(Product& product, DType in, Fingerprint& f) {
  product.default_inputs();
  const std::vector<double> a = product.values(0), b = product.values(1), c = product.multiply();
  f.digest = product.output_digest();
  product.multiply();
  f.repeats = f.digest == product.output_digest();
  f.declared = describe(product.report().arithmetic);
  f.facts = product.report().facts;
  if (!product.report().algorithm.empty()) f.facts["algorithm"] = product.report().algorithm;
  constexpr std::int64_t k = models::probe_k;
  double signed_error = 0, squares = 0;
  std::uint64_t bits = 0;
  for (std::int64_t i = 0; i < side; ++i)
    for (std::int64_t j = 0; j < side; ++j) {
      const double got = c[static_cast<std::size_t>(i * side + j)];
      // Products and sums of bf16 and fp16 operands are exact here; of fp32 ones right to 2^-47 of the magnitude.
      double exact = 0;
      for (std::int64_t l = 0; l < k; ++l)
        exact += a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(l * side + j)];
      signed_error += exact > 0 ? got - exact : exact - got;
      squares += (got - exact) * (got - exact);
      bits |= encode(DType::f32, got);
    }
  constexpr double outputs = side * side;
  f.bias = squares == 0 ? 0 : signed_error / outputs / std::sqrt(squares / outputs);
  f.zero_bits = std::countr_zero(bits | std::uint64_t{1} << 32);
  for (const models::Model& m : models::all_models()) {
    if (!may_be(m, in)) continue;
    std::vector<double> ma = a, mb = b;
    for (std::vector<double>* v : {&ma, &mb})
      for (double& x : *v) x = models::operand_value(m, x);
    int equal = 0;
    for (std::int64_t i = 0; i < side; ++i)
      for (std::int64_t j = 0; j < side; ++j)
        equal += same(c[static_cast<std::size_t>(i * side + j)], m.dot(ma.data() + i * k, 1, mb.data() + j, side, k));
    f.bits_like[std::string(m.name)] = equal / outputs;
  }
}

OrderSeen look_at_order(Product& product, const models::OrderProfile& p, DType in) {
  constexpr std::size_t columns = profile_columns;
  product.fill(0, [&](std::int64_t i, std::int64_t l) { return p.a(static_cast<std::size_t>(i), l); });
  product.fill(1, [](std::int64_t, std::int64_t) { return 1; });
  const std::vector<double> c = product.multiply();
  std::vector<double> counts;
  OrderSeen seen{.k = p.k, .digest = {}, .like = {}};
  for (std::size_t r = 0; r < p.partner.size(); ++r) {
    counts.push_back(c[r * columns] / p.one);
    for (std::size_t j = 1; j < columns; ++j) seen.columns_alike &= c[r * columns + j] == c[r * columns];
  }
  seen.digest = hex(digest_bytes(std::as_bytes(std::span(counts))));
  seen.beside = counts.front(), seen.across = counts.back();
  for (const models::Model& m : models::all_models())
    if (may_be(m, in) && models::survivors(p, m) == counts) seen.like.emplace_back(m.name);
  return seen;
}

void take(const Target& target, const TargetSpec& spec, DType in, double deadline_s, Fingerprint& f) {
  Arena arena;
  Worker worker(spec, arena.fd());
  {
    Product product(target, spec, worker, arena, in, side, side, models::probe_k, deadline_s);
    look_at_default_inputs(product, in, f);
    probe_sums(product, in, f);
    if (in == DType::f32) probe_operands(product, f);
    product.release();
  }
  for (const std::int64_t k : profile_lengths) {
    Product product(target, spec, worker, arena, in, profile_rows, profile_columns, k, deadline_s);
    f.orders.push_back(look_at_order(product, models::order_profile(in, k, profile_rows), in));
    product.release();
  }
}

nlohmann::json to_json(const std::vector<ProbeAnswer>& answers) {
  nlohmann::json all = nlohmann::json::array();
  for (const ProbeAnswer& a : answers)
    all.push_back({{"name", a.name}, {"what", a.what}, {"value", fmt::format("{}", a.value)}, {"uniform", a.uniform}});
  return all;
}

}  // namespace

std::vector<Fingerprint> fingerprint(const TargetSpec& spec, double deadline_s) {
  std::vector<Fingerprint> out;
  const Op& op = find_op("gemm");
  const auto target = std::ranges::find(op.targets, spec.target, &Target::name);
  if (target == op.targets.end() || !offers(*target, spec)) return out;
  for (const DType in : {DType::f32, DType::bf16, DType::f16}) {
    Fingerprint f;
    f.target = spec.target, f.variant = spec.variant, f.library = report::redact(spec.library);
    f.formats = make_problem(fmt::format("g1:gemm:m=1,n=1,k=1,in={},out=f32", word(in))).formats;
    try {
      take(*target, spec, in, deadline_s, f);
    } catch (const Refused& e) {
      f.refused = e.what();
    } catch (const Unavailable& e) {
      f.refused = std::string("unavailable: ") + e.what();
    }
    out.push_back(std::move(f));
    if (interrupted) break;
  }
  return out;
}

nlohmann::json to_json(const Fingerprint& f) {
  nlohmann::json j{{"target", f.target}, {"variant", f.variant}, {"library", f.library}, {"formats", f.formats}};
  if (!f.refused.empty()) {
    j["refused"] = f.refused;
    return j;
  }
  nlohmann::json orders = nlohmann::json::array();
  for (const OrderSeen& o : f.orders)
    orders.push_back({{"k", o.k},
                      {"digest", o.digest},
                      {"beside", o.beside},
                      {"across", o.across},
                      {"columns_alike", o.columns_alike},
                      {"like", o.like}});
  j.update({{"declared", f.declared},
            {"facts", f.facts},
            {"sums", to_json(f.sums)},
            {"like", f.like},
            {"operands", to_json(f.operands)},
            {"operands_like", f.operands_like},
            {"orders", orders},
            {"output_digest", f.digest},
            {"repeats", f.repeats},
            {"bias", f.bias},
            {"zero_bits", f.zero_bits},
            {"bits_like", f.bits_like}});
  return j;
}

}  // namespace assay
