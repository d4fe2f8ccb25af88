// SPDX-License-Identifier: Apache-2.0
// CBLAS targets of gemm: openblas, blis, mkl, refblas, cblas, each a library file opened by path.
#include "probes/ops/gemm/cpu_targets.hpp"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <limits>

#include "probes/library/library.hpp"
#include "probes/ops/variant.hpp"

namespace assay::gemm {

namespace {

constexpr int row_major = 101, column_major = 102, no_transpose = 111, transpose = 112;  // as cblas.h numbers them

class CblasCall final : public assay::Call {
 public:
  CblasCall(const Problem& problem, const Cblas& library) : problem_(problem), call_(call_of(problem)), library_(library) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}

  void execute() override {
    for (std::int64_t i = 0; i < call_.batch; ++i) {
      const std::int64_t entry = call_.pointer_array ? pointer_order(i, call_.batch) : i;
      switch (call_.in) {
        case DType::f64:
          multiply<double, double>(&Cblas::dgemm, entry);
          break;
        case DType::bf16:
          multiply<float, std::uint16_t>(&Cblas::sbgemm, entry);
          break;
        default:
          multiply<float, float>(&Cblas::sgemm, entry);
          break;
      }
    }
  }

  CallReport report() override {
    CallReport out;
    // Any order of additions, FMA or not, in the format of C: what every known CBLAS does for s and d. cblas_sbgemm multiplies
    // bf16 exactly and adds in fp32, by VDPBF16PS or TDPBF16PS (two fused steps, each rounded to nearest) or in plain fp32.
    out.arithmetic.operand = call_.in;
    out.arithmetic.accumulator = out.arithmetic.split_format = out.arithmetic.output = call_.out;
    out.contract = contract();
    out.facts = facts_of(library_);
    out.facts["batched"] = "loop";
    return out;
  }

 private:
  template <class Scalar, class Element, class Function>
  void multiply(Function gemm, std::int64_t entry) const {
    const auto element = [&]<class T>(std::size_t index, std::int64_t stride, T) {
      return first_element<T>(images_[index], problem_.operands[index]) + entry * stride;
    };
    (library_.*gemm)(call_.row_major ? row_major : column_major, call_.transpose_a ? transpose : no_transpose,
                     call_.transpose_b ? transpose : no_transpose, call_.m, call_.n, call_.k, static_cast<Scalar>(call_.alpha),
                     element(0, call_.stride_a, Element{}), call_.lda, element(1, call_.stride_b, Element{}), call_.ldb,
                     static_cast<Scalar>(call_.beta), element(2, call_.stride_c, Scalar{}), call_.ldc);
  }

  /// What a caller of ?gemm may rely on. A promise is made where the interface's own documentation makes it; a library is not
  /// held to what only its present code does.
  Contract contract() const {
    Contract out;
    out.beta_zero_ignores_c = {
        true, "reference BLAS, ?gemm, BETA: \"When BETA is supplied as zero then C need not be set on input.\""};
    out.alpha_zero_ignores_ab = {
        true,
        "reference BLAS, ?gemm, ALPHA: \"If ALPHA is zero the values in A and B do not affect the result.\" (Reference-LAPACK "
        "pull request 1098); OpenBLAS pull request 5889 says the same"};
    // Not made. NaN: the libraries document nothing, and Demmel et al. 2022, "Proposed consistent exception handling for the
    // BLAS and LAPACK", is a proposal (BLIS 0.9 does lose the NaN of a 1x1 transposed A against a zero in B). Subnormals:
    // undocumented, and the Intel SDM says of VDPBF16PS and TDPBF16PS "Output denormals are always flushed to zero and input
    // denormals are always treated as zero". Repeatable: OpenBLAS and BLIS document nothing, and MKL only its CNR modes.
    return out;
  }

  Problem problem_;
  gemm::Call call_;
  const Cblas& library_;
  std::vector<Image> images_;
};

std::optional<std::string> refuses(const Problem& problem, const TargetSpec& spec) {
  const gemm::Call c = call_of(problem);
  const bool plain = c.in == c.out && (c.in == DType::f32 || c.in == DType::f64);
  if (plain || (c.in == DType::bf16 && c.out == DType::f32)) return std::nullopt;
  return fmt::format(
      "a CBLAS has no product of {} into {} ({}); it has f32, f64, and bf16 into f32 where the library exports cblas_sbgemm",
      name(c.in), name(c.out), spec.name());
}

/// Before the library is opened: opening it is what runs the code that the CPU may lack.
void check_variant(const TargetSpec& spec) {
  if (spec.variant.empty()) return;
  if (const std::string level = variant_option(spec, "core="); !level.empty()) {
    if (spec.target != "openblas")
      throw Unavailable(fmt::format("{} has no selectable core types; they are OpenBLAS's", spec.target));
    const std::vector<CoreLevel> levels = openblas_levels();
    const auto known = std::ranges::find(levels, level, &CoreLevel::name);
    if (known == levels.end()) throw Unavailable(fmt::format("\"{}\" is not an OpenBLAS core type that assay knows", level));
    if (!known->cpu_has_it)
      throw Unavailable(fmt::format("this CPU, or its operating system, lacks the instructions of core type {}", level));
    require_environment(spec, "OPENBLAS_CORETYPE", level);
    return;
  }
  if (const std::string threads = variant_option(spec, "threads="); !threads.empty()) {
    if (spec.target == "openblas") return require_environment(spec, "OPENBLAS_NUM_THREADS", threads);
    if (spec.target == "blis") return require_environment(spec, "BLIS_NUM_THREADS", threads);
    if (spec.target == "mkl") return require_environment(spec, "MKL_NUM_THREADS", threads);
  }
  throw Unavailable(fmt::format("{} has no variant \"{}\"; expected core=NAME (openblas) or threads=N (openblas, blis, mkl)",
                                spec.target, spec.variant));
}

/// After it is opened: did the library do as it was told? A level it was built without is replaced in silence.
void check_answer(const TargetSpec& spec, const Cblas& library) {
  if (const std::string level = variant_option(spec, "core="); !level.empty()) {
    const std::string core = library.core();
    if (core.empty())
      throw Unavailable(
          fmt::format("{} does not say which core type it uses, so {} cannot be confirmed", library.path(), level));
    if (::strcasecmp(core.c_str(), level.c_str()) != 0)
      throw Unavailable(fmt::format("this library answers {} when asked for {}: it silently replaced it", core, level));
  }
  if (const std::string threads = variant_option(spec, "threads="); !threads.empty())
    if (library.threads() != 0 && fmt::to_string(library.threads()) != threads)
      throw Unavailable(fmt::format("this library uses {} threads when asked for {}", library.threads(), threads));
}

}  // namespace

const Cblas& open_cblas(const TargetSpec& spec) {
  if (spec.library.empty())
    throw Unavailable(
        fmt::format("no {0} library was found; install one, or name its file with --libraries {0}=PATH", spec.target));
  check_variant(spec);
  const Cblas* library = nullptr;
  try {
    library = &Cblas::open(spec.library);
  } catch (const LibraryError& e) {
    throw Unavailable(e.what());
  }
  check_answer(spec, *library);
  return *library;
}

std::map<std::string, std::string> facts_of(const Cblas& library) {
  std::map<std::string, std::string> facts;
  facts["version"] = library.version();
  facts["core"] = library.core();
  facts["threads"] = library.threads() == 0 ? "" : fmt::to_string(library.threads());
  facts["integers"] = library.ilp64() ? "64-bit" : "32-bit";
  std::erase_if(facts, [](const auto& fact) { return fact.second.empty(); });
  return facts;
}

namespace {

std::unique_ptr<assay::Call> prepare(const Problem& problem, const TargetSpec& spec) {
  const Cblas& library = open_cblas(spec);
  const gemm::Call c = call_of(problem);
  if (c.in == DType::bf16 && !library.has_bf16())
    throw Unsupported(library.path() + " exports no cblas_sbgemm: it cannot multiply bf16");
  const std::int64_t largest = std::max({c.m, c.n, c.k, c.lda, c.ldb, c.ldc});
  if (!library.ilp64() && largest > std::numeric_limits<std::int32_t>::max())
    throw Unsupported(fmt::format("{} does not fit the 32-bit integers of {}", largest, library.path()));
  return std::make_unique<CblasCall>(problem, library);
}

}  // namespace

Target cblas_target(std::string name, std::string summary) {
  return {std::move(name), std::move(summary), refuses, prepare};
}

std::vector<Target> cpu_targets() {
  return {eigen_target(),
          cblas_target("openblas", "OpenBLAS through CBLAS, opened by path; variants core=NAME, threads=N"),
          cblas_target("blis", "BLIS through CBLAS, opened by path; variant threads=N"),
          cblas_target("mkl", "Intel MKL through CBLAS, opened by path; variant threads=N"),
          cblas_target("refblas", "the reference BLAS through CBLAS, opened by path"),
          cblas_target("cblas", "any other library with a CBLAS interface, opened by path"),
          onednn_target()};
}

}  // namespace assay::gemm
