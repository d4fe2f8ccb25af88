// SPDX-License-Identifier: Apache-2.0
// Target "cublaslt" of gemm: cuBLASLt opened by path, one variant per mode, per answer of the heuristic and per algorithm of
// the enumeration.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "probes/library/library.hpp"
#include "probes/ops/device_call.hpp"
#include "probes/ops/gemm/cublaslt_arguments.hpp"

namespace assay::gemm {

namespace {

using namespace cuda;
using device::device_pointer;

/// The library, started on the device of the current context.
const CublasLt& started(const std::string& path) {
  const CublasLt& library = CublasLt::open(path);
  try {
    library.handle();
  } catch (const LtError& e) {
    if (e.status != CUBLAS_STATUS_NOT_INITIALIZED && e.status != CUBLAS_STATUS_ALLOC_FAILED) throw;
    throw Unavailable(fmt::format(
        "{} ({}): {}; it needs a device and a driver that is new enough for it: compare with what `assay env` finds", path,
        library.version_text(), e.what()));
  }
  return library;
}

lt::Layout layout(const CublasLt& library, const LtMatrix& m, const LtArguments& g) {
  lt::Layout out = lt::make_layout(library, m.type, m.rows, m.columns, m.ld);
  out.set(CUBLASLT_MATRIX_LAYOUT_ORDER, g.order);
  out.set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, g.batch);
  if (!g.pointer_array) {
    out.set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, m.batch_stride);
    return out;
  }
  try {
    out.set(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, std::uint32_t{CUBLASLT_BATCH_MODE_POINTER_ARRAY});
  } catch (const LtError& e) {
    if (e.status != CUBLAS_STATUS_INVALID_VALUE) throw;
    throw Unsupported(library.version_text() + " knows no batches by pointers");
  }
  return out;
}

lt::Operation operation(const CublasLt& library, const LtArguments& g, const void* bias) {
  lt::Operation out{.description = lt::make_description(library, g.compute, g.scale),
                    .a = layout(library, g.a, g),
                    .b = layout(library, g.b, g),
                    .c = layout(library, g.c, g),
                    .compute = g.compute,
                    .scale = g.scale,
                    .type_a = g.a.type,
                    .type_b = g.b.type,
                    .type_c = g.c.type};
  out.description.set(CUBLASLT_MATMUL_DESC_TRANSA, g.a.op);
  out.description.set(CUBLASLT_MATMUL_DESC_TRANSB, g.b.op);
  out.description.set(CUBLASLT_MATMUL_DESC_EPILOGUE, g.epilogue);
  if (bias != nullptr) {
    out.description.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    if (g.batch > 1) out.description.set(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, g.bias_stride);
  }
  return out;
}

class LtCall final : public DeviceCall {
 public:
  LtCall(const Problem& problem, const TargetSpec& spec, const LtMode& mode)
      : DeviceCall(problem, spec),
        call_(call_of(problem)),
        mode_(mode),
        arguments_(lt_arguments(problem, mode)),
        library_(started(spec.library)),
        operation_(operation(library_, arguments_, call_.bias ? element0(3) : nullptr)) {
    const std::size_t size = size_bytes(arguments_.scalar);
    scalars_.resize(2 * size);
    store_bits(arguments_.scalar, scalars_.data(), encode(arguments_.scalar, arguments_.alpha));
    store_bits(arguments_.scalar, scalars_.data() + size, encode(arguments_.scalar, arguments_.beta));
    const LtMatrix* const matrices[] = {&arguments_.a, &arguments_.b, &arguments_.c};
    for (std::size_t i = 0; i < 3; ++i) addresses_[i] = element0(matrices[i]->operand);
    if (call_.pointer_array)
      for (std::size_t i = 0; i < 3; ++i) addresses_[i] = pointers(*matrices[i]);
    set_fp8_modes();
    choose();
    if (choice_.workspace_bytes > 0) workspace_ = device_pointer(scratch(choice_.workspace_bytes, "the workspace").address());
  }

 private:
  void queue_on(const device::Stream& stream) override {
    const std::size_t size = size_bytes(arguments_.scalar);
    const cublasStatus_t status = library_.fn().cublasLtMatmul(
        library_.handle(), operation_.description.get(), scalars_.data(), addresses_[0], operation_.a.get(), addresses_[1],
        operation_.b.get(), scalars_.data() + size, addresses_[2], operation_.c.get(), addresses_[2], operation_.c.get(),
        &choice_.algo, workspace_, choice_.workspace_bytes, stream.get());
    const std::string doing = fmt::format("cublasLtMatmul with {}", lt::describe(choice_.configuration));
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH)
      throw Unsupported(fmt::format("{}: {}", doing, status_name(status)));
    library_.check(status, doing);
  }

  void fill(CallReport& r) override {
    r.arithmetic = lt_arithmetic(call_, mode_, choice_, context().sm());
    r.contract = lt_contract(mode_);
    r.algorithm = fmt::format("{} workspace={}", lt::describe(choice_.configuration), choice_.workspace_bytes);
    const lt::Configuration& c = choice_.configuration;
    r.plan = nlohmann::ordered_json{{"library", library_.version_text()},
                                    {"id", c.id},
                                    {"tile", c.tile},
                                    {"stages", c.stages},
                                    {"splitk", c.splits},
                                    {"reduction", c.reduction},
                                    {"swizzle", c.swizzle},
                                    {"custom", c.custom},
                                    {"inner", c.inner},
                                    {"cluster", c.cluster},
                                    {"workspace", choice_.workspace_bytes},
                                    {"waves", choice_.waves},
                                    {"numerical_flags", choice_.numerical_flags}}
                 .dump();
    r.facts["driver"] = r.facts["version"];
    r.facts["version"] = library_.version_text();
    r.facts["order"] = arguments_.order == CUBLASLT_ORDER_ROW ? "row" : "column";
    if (const std::string flags = lt::describe_flags(choice_.numerical_flags); !flags.empty())
      r.facts["implementation"] = flags;
    r.facts[mode_.algorithm >= 0 ? "algorithms" : "heuristic answers"] = fmt::format("{}", offered_);
  }

  /// The batch entries' addresses on the device, in the order that the case names them.
  void* pointers(const LtMatrix& m) {
    std::vector<const std::byte*> list;
    const auto* const first = static_cast<const std::byte*>(element0(m.operand));
    const auto size = static_cast<std::int64_t>(size_bytes(problem().operands[m.operand].dtype));
    for (std::int64_t i = 0; i < call_.batch; ++i)
      list.push_back(first + pointer_order(i, call_.batch) * m.batch_stride * size);
    return device_pointer(constant(std::as_bytes(std::span(list)), "the list of pointers").address());
  }

  void set_fp8_modes() {
    const auto factor = [&](float value, int attribute, const char* what) {
      if (value == 1) return;
      const void* const at = device_pointer(constant(std::as_bytes(std::span(&value, 1)), what).address());
      operation_.description.set(attribute, at);
    };
    factor(arguments_.scale_a, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, "the scale of A");
    factor(arguments_.scale_b, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, "the scale of B");
    if (mode_.fast_accumulation) operation_.description.set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
  }

  /// Of all entries of the batch.
  std::uint32_t alignment(const LtMatrix& m) const {
    const auto size = size_bytes(problem().operands[m.operand].dtype);
    const std::uint32_t first = lt_alignment(reinterpret_cast<std::uint64_t>(element0(m.operand)));
    return arguments_.batch > 1 ? std::min(first, lt_alignment(static_cast<std::uint64_t>(m.batch_stride) * size)) : first;
  }

  void choose() {
    const std::size_t most = mode_.workspace_bytes;
    const std::uint32_t a = alignment(arguments_.a), b = alignment(arguments_.b), c = alignment(arguments_.c);
    std::vector<lt::Choice> choices;
    int wanted = mode_.rank;
    try {
      if (mode_.algorithm >= 0) {
        choices = lt::enumerate(library_, operation_, {.workspace_bytes = most, .alignment = {a, b, c, c}});
        wanted = mode_.algorithm;
      } else {
        const lt::Preference preference = lt::make_preference(library_);
        preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{most});
        preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a);
        preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b);
        preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c);
        preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c);
        const int reductions = mode_.any_reduction ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_NONE;
        preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<std::uint32_t>(reductions));
        choices = lt::heuristic(library_, operation_, preference, mode_.rank + 1);
      }
    } catch (const LtError& e) {
      if (e.status == CUBLAS_STATUS_NOT_SUPPORTED || e.status == CUBLAS_STATUS_ARCH_MISMATCH) throw Unsupported(e.what());
      throw;
    }
    offered_ = choices.size();
    if (choices.size() <= static_cast<std::size_t>(wanted))
      throw Unsupported(fmt::format("cuBLASLt offers {} algorithm{} for this problem, so there is no {}", choices.size(),
                                    choices.size() == 1 ? "" : "s", wanted == 0 ? "first" : spec().variant));
    choice_ = choices[static_cast<std::size_t>(wanted)];
  }

  gemm::Call call_;
  LtMode mode_;
  LtArguments arguments_;
  const CublasLt& library_;
  lt::Operation operation_;
  std::vector<std::byte> scalars_;  // alpha, beta
  void* addresses_[3] = {};         // of cuBLASLt's A, B and C, or of their lists
  lt::Choice choice_;
  std::size_t offered_ = 0;
  void* workspace_ = nullptr;
};

std::string no_variant(const TargetSpec& spec) {
  return fmt::format("cublaslt has no variant \"{}\"; see `assay list targets`", spec.variant);
}

std::optional<std::string> refuses(const Problem& problem, const TargetSpec& spec) {
  const std::optional<LtMode> mode = parse_lt_mode(spec.variant);
  return mode ? lt_refuses(problem, *mode) : no_variant(spec);
}

std::unique_ptr<assay::Call> prepare(const Problem& problem, const TargetSpec& spec) {
  if (spec.library.empty())
    throw Unavailable("no cuBLASLt was found; install one, or name its file with --libraries cublasLt=PATH");
  const std::optional<LtMode> mode = parse_lt_mode(spec.variant);
  if (!mode) throw Unsupported(no_variant(spec));
  return std::make_unique<LtCall>(problem, spec, *mode);
}

}  // namespace

Target cublaslt_target() {
  Target t{"cublaslt",
           "cuBLASLt, opened by path, on a GPU; variants: modes, the heuristic's other answers, its algorithms one by one",
           refuses, prepare, lt_variants()};
  t.on_device = true;
  t.library_role = "cublasLt";
  t.deep_variants = lt_deep_variants();
  return t;
}

}  // namespace assay::gemm
