// SPDX-License-Identifier: Apache-2.0
// Target "onednn" of gemm: oneDNN's matmul, opened by path; alpha and beta as post-ops, scratchpad ours and poisoned.
#include <fmt/format.h>

#include <algorithm>

#include "probes/library/onednn.hpp"
#include "probes/ops/gemm/blas.hpp"
#include "probes/ops/gemm/cpu_targets.hpp"
#include "probes/ops/variant.hpp"

namespace assay::gemm {

namespace {

using onednn::PostOp;
using onednn::Tensor;

/// op(A), op(B) and C as oneDNN sees them. Its matmul is made for a destination whose rows are contiguous, so a column-major
/// call becomes C' = B' A' on the same memory, which is what callers of oneDNN with column-major data do.
struct Operands {
  Tensor source, weights, destination;
  std::size_t source_operand = 0, weights_operand = 1;  // index into Problem::operands
};

Tensor tensor(DType t, const Layout& at, std::int64_t batch, std::int64_t rows, std::int64_t columns, bool transposed,
              bool batched) {
  Tensor out{.dtype = t, .dims = {rows, columns}, .strides = {at.row, at.column}};
  if (transposed) {
    std::swap(out.dims[0], out.dims[1]);
    std::swap(out.strides[0], out.strides[1]);
  }
  if (!batched) return out;
  // One matrix for the whole batch is a batch of 1, which oneDNN broadcasts.
  const bool shared = at.entry == 0 && batch > 1;
  out.dims.insert(out.dims.begin(), shared ? 1 : batch);
  out.strides.insert(out.strides.begin(), shared ? std::max(rows * at.row, columns * at.column) : at.entry);
  return out;
}

Operands operands(const Call& c, const Problem& p, bool packed) {
  const bool batched = c.batch != 1 && !c.pointer_array, swapped = !c.row_major;
  Tensor a = tensor(c.in, layout_a(c, p), c.batch, c.m, c.k, swapped, batched);
  Tensor b = tensor(c.in, layout_b(c, p), c.batch, c.k, c.n, swapped, batched);
  Operands out{.source = swapped ? b : a, .weights = swapped ? a : b, .destination = {}};
  out.destination = tensor(c.out, layout_c(c, p), c.batch, c.m, c.n, swapped, batched);
  if (swapped) std::swap(out.source_operand, out.weights_operand);
  out.weights.packed = packed;
  return out;
}

std::vector<PostOp> post_ops(const Call& c) {
  std::vector<PostOp> out;
  if (c.alpha != 1) out.push_back({PostOp::linear, static_cast<float>(c.alpha)});
  if (c.beta != 0) out.push_back({PostOp::sum, static_cast<float>(c.beta)});
  return out;
}

class MatmulCall final : public assay::Call {
 public:
  MatmulCall(const Problem& problem, const onednn::Library& library, bool packed)
      : problem_(problem),
        call_(call_of(problem)),
        library_(library),
        packed_(packed),
        operands_(operands(call_, problem, packed)),
        primitive_(onednn::Primitive::matmul(library, operands_.source, operands_.weights, {}, operands_.destination,
                                             post_ops(call_))) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}

  void execute() override {
    if (!call_.pointer_array) return multiply(0);
    for (std::int64_t i = 0; i < call_.batch; ++i) multiply(pointer_order(i, call_.batch));
  }

  CallReport report() override {
    CallReport out;
    // oneDNN developer guide, Data Types: floating-point primitives accumulate in f32 by default (accumulation_mode strict),
    // nothing is converted down unless fpmath_mode allows it (set to strict here), post-ops run in f32, and the result is
    // converted to the type of dst once. Documented as faithful; every x86-64 conversion instruction rounds to nearest.
    out.arithmetic.operand = call_.in;
    out.arithmetic.accumulator = out.arithmetic.split_format = DType::f32;
    out.arithmetic.output = call_.out;
    out.contract = contract();
    out.algorithm = primitive_.implementation();
    out.facts["version"] = library_.version_text();
    out.facts["core"] = library_.isa();
    out.facts["runtime"] = library_.runtime_text();
    if (library_.threads() > 0) out.facts["threads"] = fmt::to_string(library_.threads());
    out.facts["batched"] = call_.pointer_array ? "loop" : "one call";
    out.facts["weights"] = packed_ ? "packed by the library" : "as given";
    return out;
  }

 private:
  void multiply(std::int64_t entry) {
    const auto at = [&](std::size_t operand, std::int64_t stride) {
      const Operand& o = problem_.operands[operand];
      return element(o.dtype, images_[operand].storage, o.offset + entry * stride);
    };
    std::byte* const ab[] = {at(0, call_.stride_a), at(1, call_.stride_b)};
    const onednn::Primitive::Data data[] = {{onednn::source, ab[operands_.source_operand]},
                                            {onednn::weights, ab[operands_.weights_operand]},
                                            {onednn::destination, at(2, call_.stride_c)}};
    primitive_.run(data);
  }

  Contract contract() const {
    Contract out;
    out.beta_zero_ignores_c = {
        true, "oneDNN developer guide, Post-ops: dst is read only by a sum post-op, and beta = 0 appends none"};
    // Not made. alpha = 0: alpha is an eltwise_linear post-op, alpha*x, and 0*NaN is NaN. NaN in, NaN out: the guide does not
    // say so. Repeatable: "deterministic" is false by default, which "permits the library to use non-deterministic constructs".
    out.nan_confined = {
        true, "oneDNN issue 5717, NaN of one row in the results of another, was a bug and fixed by pull request 5723"};
    if (call_.in == DType::f32 && library_.version().major >= 3)
      out.keeps_subnormals = {
          true,
          "oneDNN developer guide, Data Types, Rounding mode and denormal handling: \"Computation on denormals are "
          "not flushed to zero by default\"; low-precision instructions such as AMX are excepted"};
    return out;
  }

  Problem problem_;
  gemm::Call call_;
  const onednn::Library& library_;
  bool packed_;
  Operands operands_;
  onednn::Primitive primitive_;
  std::vector<Image> images_;
};

std::optional<std::string> refuses(const Problem& problem, const TargetSpec&) {
  const gemm::Call c = call_of(problem);
  if (c.has_epilogue()) return "this target makes plain products only";
  if (c.in == DType::f64) return "oneDNN multiplies f64 on GPU engines only (developer guide, Data Types)";
  return std::nullopt;
}

/// Before the library is opened.
void check_variant(const TargetSpec& spec) {
  if (spec.variant.empty() || spec.variant == "layout=packed") return;
  if (const std::string threads = variant_option(spec, "threads="); !threads.empty())
    return require_environment(spec, "OMP_NUM_THREADS", threads);
  if (const std::string isa = variant_option(spec, "isa="); !isa.empty()) {
    const std::vector<CoreLevel> levels = onednn_levels();
    const auto known = std::ranges::find(levels, isa, &CoreLevel::name);
    if (known == levels.end())
      throw Unavailable(fmt::format("\"{}\" is not a oneDNN instruction-set level that assay knows", isa));
    if (!known->cpu_has_it)
      throw Unavailable(fmt::format("this CPU, or its operating system, lacks the instructions of {}", isa));
    return require_environment(spec, "ONEDNN_MAX_CPU_ISA", isa);
  }
  throw Unavailable(
      fmt::format("{} has no variant \"{}\"; expected isa=NAME, layout=packed or threads=N", spec.target, spec.variant));
}

/// After it is opened: a level that the library does not know, or that was built out of it, is replaced in silence.
void check_answer(const TargetSpec& spec, const onednn::Library& library) {
  if (const std::string isa = variant_option(spec, "isa="); !isa.empty() && library.isa() != isa)
    throw Unavailable(fmt::format("this library answers {} when asked for {}: it silently replaced it", library.isa(), isa));
  if (const std::string threads = variant_option(spec, "threads=");
      !threads.empty() && fmt::to_string(library.threads()) != threads)
    throw Unavailable(fmt::format("this library uses {} threads when asked for {} ({} runtime)", library.threads(), threads,
                                  library.runtime_text()));
}

/// C = alpha*A*B over no terms: oneDNN answers "success" and leaves C as it was, which its documentation allows.
void check_defined(const gemm::Call& c) {
  if (c.k == 0 && c.m > 0 && c.n > 0 && c.batch > 0)
    throw Unsupported(
        "oneDNN does not define sums of no terms: with zero-volume operands \"the primitive typically does not perform any "
        "computations\" (dnnl.hpp, Memory), so C would keep what it held");
}

std::unique_ptr<assay::Call> prepare(const Problem& problem, const TargetSpec& spec) {
  if (spec.library.empty())
    throw Unavailable(
        "no oneDNN was found; install one (libdnnl2, onednn-cpu-gomp), or name its file with --libraries onednn=PATH");
  check_variant(spec);
  try {
    const onednn::Library& library = onednn::Library::open(spec.library);
    check_answer(spec, library);
    auto call = std::make_unique<MatmulCall>(problem, library, spec.variant == "layout=packed");
    check_defined(call_of(problem));  // afterwards: creating a primitive must not end the process, whatever its sizes
    return call;
  } catch (const LibraryError& e) {
    throw Unavailable(e.what());
  } catch (const onednn::Refused& e) {
    throw Unsupported(e.what());
  }
}

}  // namespace

Target onednn_target() {
  return {"onednn", "oneDNN's matmul, opened by path; variants isa=NAME, layout=packed, threads=N", refuses, prepare};
}

}  // namespace assay::gemm
