// SPDX-License-Identifier: Apache-2.0
// Target "cublas" of gemm: cuBLAS opened by path, one variant per mode.
#include <fmt/format.h>

#include <mutex>

#include "probes/library/cublas.hpp"
#include "probes/library/library.hpp"
#include "probes/ops/device_call.hpp"
#include "probes/ops/gemm/cublas_arguments.hpp"

namespace assay::gemm {

namespace {

using device::device_pointer;

/// Handles that no call uses: to make one takes longer than most calls. Every call sets all that it leans on.
class Handles {
 public:
  using Handle = std::shared_ptr<cuda::cublasContext>;
  static Handle take(const cuda::Cublas& cublas) {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        Handle h = std::move(free_.back());
        free_.pop_back();
        return h;
      }
    }
    return cuda::create_handle(cublas);
  }
  static void give_back(Handle h) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(h));
  }

 private:
  static inline std::mutex mutex_;
  static inline std::vector<Handle>& free_ = *new std::vector<Handle>;  // the process ends without the library's clean-up
};

class CublasCall final : public DeviceCall {
 public:
  CublasCall(const Problem& p, const TargetSpec& spec, const cuda::Cublas& cublas, const CublasModeRow& mode)
      : DeviceCall(p, spec),
        call_(call_of(p)),
        cublas_(cublas),
        mode_(mode.mode),
        arguments_(cublas_arguments(p, mode.mode)),
        scalars_(cublas_scalars(call_, arguments_.scalar)),
        handle_(Handles::take(cublas)) {
    if (const std::size_t bytes = cublas_workspace_bytes(mode_, context().sm()); bytes > 0)
      workspace_ = &scratch(bytes, "the workspace");
    if (mode_ == CublasMode::device_scalars) device_scalars_ = &constant(scalars_, "alpha and beta");
    if (mode_ == CublasMode::fixed_point) mantissa_bits_ = &scratch(sizeof(int), "the number of mantissa bits");
    if (arguments_.routine == CublasRoutine::pointers) make_pointers();
    if (p.queue == "graph") {  // cuBLAS loads a kernel at its first use, which a capture may forbid
      queue_on(stream());
      stream().synchronize("calling cuBLAS before the capture");
    }
  }
  ~CublasCall() override { Handles::give_back(std::move(handle_)); }
  CublasCall(const CublasCall&) = delete;
  CublasCall& operator=(const CublasCall&) = delete;

 protected:
  void queue_on(const device::Stream& stream) override {
    const cuda::CublasFunctions& fn = cublas_.fn();
    cuda::cublasContext* const h = handle_.get();
    const auto set = [&](cuda::cublasStatus_t status, std::string_view doing) { cublas_.check(status, doing); };
    set(fn.cublasSetStream_v2(h, stream.get()), "cublasSetStream");
    // After the stream: setting that gives the handle its own workspace back.
    set(fn.cublasSetWorkspace_v2(h, workspace_ ? device_pointer(workspace_->address()) : nullptr,
                                 workspace_ ? workspace_->bytes() : 0),
        "cublasSetWorkspace");
    set(fn.cublasSetMathMode(h, arguments_.math), "cublasSetMathMode");
    set(fn.cublasSetAtomicsMode(h, cuda::CUBLAS_ATOMICS_NOT_ALLOWED), "cublasSetAtomicsMode");
    set(fn.cublasSetPointerMode_v2(h, device_scalars_ ? cuda::CUBLAS_POINTER_MODE_DEVICE : cuda::CUBLAS_POINTER_MODE_HOST),
        "cublasSetPointerMode");
    if (mode_ == CublasMode::bf16x9 || mode_ == CublasMode::fixed_point)
      set(fn.cublasSetEmulationStrategy(h, cuda::CUBLAS_EMULATION_STRATEGY_EAGER), "cublasSetEmulationStrategy");
    if (mode_ == CublasMode::fixed_point) {
      set(fn.cublasSetFixedPointEmulationMantissaControl(h, cuda::CUDA_EMULATION_MANTISSA_CONTROL_DYNAMIC),
          "cublasSetFixedPointEmulationMantissaControl");
      set(fn.cublasSetFixedPointEmulationMantissaBitCountPointer(h,
                                                                 static_cast<int*>(device_pointer(mantissa_bits_->address()))),
          "cublasSetFixedPointEmulationMantissaBitCountPointer");
    }
    expect_success(start());
    started_ = true;
  }

  void fill(CallReport& r) override {
    r.arithmetic = cublas_arithmetic(call_, mode_, context().sm());
    r.contract = cublas_contract(mode_);
    r.algorithm = routine();
    r.facts["version"] = cublas_.version_text();
    r.facts["compute type"] = fmt::format("{}", arguments_.compute);
    r.facts["workspace"] = fmt::format("{}", workspace_ ? workspace_->bytes() : 0);
    if (mode_ == CublasMode::fixed_point && started_) {
      // Poison (-1) until a call has written it; cuBLAS writes -1 where it did not emulate.
      int bits = -1;
      mantissa_bits_->download(stream(), std::as_writable_bytes(std::span(&bits, 1)));
      r.facts["mantissa bits"] = bits < 0 ? "not emulated" : fmt::format("{}", bits);
    }
  }

 private:
  std::string_view routine() const { return name(arguments_.routine, call_.in); }

  const void* alpha() const {
    return device_scalars_ ? device_pointer(device_scalars_->address()) : static_cast<const void*>(scalars_.data());
  }
  const void* beta() const { return static_cast<const std::byte*>(alpha()) + scalars_.size() / 2; }

  /// Addresses of the batch entries, in the shuffled order, in device memory: those of A, B and C after one another.
  void make_pointers() {
    const CublasArguments& g = arguments_;
    std::vector<std::byte*> pointers;
    const auto add = [&](std::size_t operand, std::int64_t stride) {
      const auto bytes = stride * static_cast<std::int64_t>(size_bytes(problem().operands[operand].dtype));
      for (std::int64_t i = 0; i < call_.batch; ++i)
        pointers.push_back(static_cast<std::byte*>(element0(operand)) + pointer_order(i, call_.batch) * bytes);
    };
    add(g.a, g.stride_a), add(g.b, g.stride_b), add(2, g.stride_c);
    pointers_ = &constant(std::as_bytes(std::span(pointers)), "the pointer arrays");
  }

  cuda::cublasStatus_t start() const {
    const cuda::CublasFunctions& fn = cublas_.fn();
    const CublasArguments& g = arguments_;
    cuda::cublasContext* const h = handle_.get();
    void *const a = element0(g.a), *const b = element0(g.b), *const c = element0(2);
    const auto gemv = [&]<class T>(auto function, T) {
      return function(h, g.op_a, g.m, g.n, static_cast<const T*>(alpha()), static_cast<const T*>(a), g.lda,
                      static_cast<const T*>(b), g.ldb, static_cast<const T*>(beta()), static_cast<T*>(c), g.ldc);
    };
    switch (g.routine) {
      case CublasRoutine::gemm:
        return fn.cublasGemmEx(h, g.op_a, g.op_b, g.m, g.n, g.k, alpha(), a, g.type_a, g.lda, b, g.type_b, g.ldb, beta(), c,
                               g.type_c, g.ldc, g.compute, cuda::CUBLAS_GEMM_DEFAULT);
      case CublasRoutine::strided:
        return fn.cublasGemmStridedBatchedEx(h, g.op_a, g.op_b, g.m, g.n, g.k, alpha(), a, g.type_a, g.lda, g.stride_a, b,
                                             g.type_b, g.ldb, g.stride_b, beta(), c, g.type_c, g.ldc, g.stride_c, g.batch,
                                             g.compute, cuda::CUBLAS_GEMM_DEFAULT);
      case CublasRoutine::pointers: {
        void** const all = static_cast<void**>(device_pointer(pointers_->address()));
        return fn.cublasGemmBatchedEx(h, g.op_a, g.op_b, g.m, g.n, g.k, alpha(), all, g.type_a, g.lda, all + g.batch, g.type_b,
                                      g.ldb, beta(), all + 2 * g.batch, g.type_c, g.ldc, g.batch, g.compute,
                                      cuda::CUBLAS_GEMM_DEFAULT);
      }
      case CublasRoutine::gemv:
        break;
    }
    return g.scalar == DType::f64 ? gemv(fn.cublasDgemv_v2, double{}) : gemv(fn.cublasSgemv_v2, float{});
  }

  /// Only what says "not here" is no fault: a wrong argument of ours must show.
  void expect_success(cuda::cublasStatus_t status) const {
    if (status == cuda::CUBLAS_STATUS_NOT_SUPPORTED || status == cuda::CUBLAS_STATUS_ARCH_MISMATCH)
      throw Unsupported(fmt::format("{} of {} says {} to this call on sm_{}", routine(), cublas_.version_text(),
                                    cuda::status_name(status), context().sm()));
    // cuBLAS documentation, cublasSetWorkspace: too small a workspace may make a routine fail so.
    if (status == cuda::CUBLAS_STATUS_ALLOC_FAILED && mode_ == CublasMode::no_workspace)
      throw Unsupported(fmt::format("{} of {} needs a workspace for this call", routine(), cublas_.version_text()));
    cublas_.check(status, routine());
  }

  gemm::Call call_;
  const cuda::Cublas& cublas_;
  CublasMode mode_;
  CublasArguments arguments_;
  std::vector<std::byte> scalars_;
  Handles::Handle handle_;
  bool started_ = false;
  const device::Buffer *workspace_ = nullptr, *device_scalars_ = nullptr, *pointers_ = nullptr, *mantissa_bits_ = nullptr;
};

std::optional<std::string> refuses_spec(const Problem& p, const TargetSpec& spec) {
  const CublasModeRow* const mode = find_cublas_mode(spec.variant);
  if (mode == nullptr) {
    std::string known;
    for (const CublasModeRow& m : cublas_modes()) known += fmt::format("{}{}", known.empty() ? "" : ", ", m.name);
    return fmt::format("target cublas has no mode \"{}\"; name one as cublas:MODE, with MODE one of {}", spec.variant, known);
  }
  return refuses(p, mode->mode);
}

std::string version_number(int v) {
  return fmt::format("{}.{}", v / 10000, v / 100 % 100);
}

std::unique_ptr<assay::Call> prepare(const Problem& p, const TargetSpec& spec) {
  if (const auto reason = refuses_spec(p, spec)) throw Unsupported(*reason);
  if (spec.library.empty())
    throw Unavailable("no cuBLAS was found; install one, or name its file with --libraries cublas=PATH");
  std::map<std::string, std::string> files = spec.set;
  files["cublas"] = spec.library;
  const cuda::Cublas& cublas = cuda::Cublas::open(files);
  const CublasModeRow& mode = *find_cublas_mode(spec.variant);
  if (cublas.version() < mode.least_version)
    throw Unsupported(fmt::format("mode {} needs cuBLAS {} or later, this is {}", mode.name, version_number(mode.least_version),
                                  cublas.version_text()));
  return std::make_unique<CublasCall>(p, spec, cublas, mode);
}

}  // namespace

Target cublas_target() {
  Target t{"cublas", "cuBLAS on a GPU, opened by path; variants are its modes", refuses_spec, prepare};
  for (const CublasModeRow& m : cublas_modes()) (m.deep ? t.deep_variants : t.variants).emplace_back(m.name);
  t.on_device = true;
  t.library_role = "cublas";
  return t;
}

}  // namespace assay::gemm
