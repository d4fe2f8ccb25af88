// SPDX-License-Identifier: Apache-2.0
// "sim": a pretend device that proves the target interface for a GPU: an address space of its own, an asynchronous queue,
// a workspace, an algorithm and arithmetic known only after the call, and errors that surface late and stay.
//
// Variants: ""               correct
//           late_error       the kernel touches an illegal address: execute returns, store throws, and from then on every call
//                            in this process fails
//           launch_failure   execute throws; later calls work
//           hang             execute returns, store never does
//           late_wrong       computes with TF32 operands and declares fp32 (same thing for bf16 operands: TF32 holds them)
//           workspace_dirty  always split_k, and adds to the workspace without clearing it: the result depends on what was
//           there copy_fault       one byte of C changes on its way back to the host
// Takes fp32, and bf16 operands with fp32 results. It names itself in every record, so its output can never pass for a GPU's.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <semaphore>
#include <thread>

#include "probes/ops/gemm/blas.hpp"
#include "reference/philox.hpp"

namespace assay::gemm {

namespace {

constexpr std::array<std::string_view, 7> variants = {"",           "late_error",      "launch_failure", "hang",
                                                      "late_wrong", "workspace_dirty", "copy_fault"};

struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// As on a GPU, an illegal access spoils the whole process: only a new one starts clean.
std::atomic<bool> context_lost = false;

void check_context(std::string_view doing) {
  if (context_lost)
    throw DeviceError(
        fmt::format("simulated device: illegal address, found while {}; every call of this process fails from now on", doing));
}

/// An address on the device. Bits 63 and 47 differ, so no CPU can follow it by mistake.
using Address = std::uint64_t;
constexpr Address address_tag = 0xDE71'0000'0000'0000;

/// Device memory: one mapping, handed out in pieces that are never given back before the whole is.
class Arena {
 public:
  explicit Arena(std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
      throw Unavailable(fmt::format("simulated device: no memory for {} bytes; choose a smaller case", bytes_));
    base_ = static_cast<std::byte*>(p);
  }
  ~Arena() { munmap(base_, bytes_); }
  Arena(const Arena&) = delete;

  Address allocate(std::size_t bytes) {
    const Address at = address_tag + used_;
    used_ += bytes;
    if (used_ > bytes_) throw std::logic_error("simulated device: arena is smaller than what is taken from it");
    return at;
  }
  /// Only the device's own code and its copy engine may translate; an address outside the arena is an illegal access.
  std::byte* at(Address address, std::size_t bytes) const {
    if (address < address_tag || address - address_tag + bytes > bytes_) throw DeviceError("illegal address");
    return base_ + (address - address_tag);
  }

 private:
  std::size_t bytes_, used_ = 0;
  std::byte* base_ = nullptr;
};

/// Work is done in order by one thread of its own. (No std::condition_variable: its wait needs a newer libstdc++ than we
/// promise.)
class Queue {
 public:
  Queue() : thread_([this] { serve(); }) {}
  ~Queue() {
    push(nullptr);
    thread_.join();
  }
  Queue(const Queue&) = delete;

  void push(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(work));
    }
    ready_.release();
  }
  void synchronize() {
    std::binary_semaphore done(0);
    push([&done] { done.release(); });
    done.acquire();
  }

 private:
  void serve() {
    while (true) {
      ready_.acquire();
      std::function<void()> work;
      {
        const std::lock_guard lock(mutex_);
        work = std::move(waiting_.front());
        waiting_.pop_front();
      }
      if (!work) return;
      try {
        work();
      } catch (const DeviceError&) {
        context_lost = true;  // nobody is waiting here; the next call finds out
      }
    }
  }

  std::mutex mutex_;
  std::deque<std::function<void()>> waiting_;
  std::counting_semaphore<> ready_{0};
  std::thread thread_;  // last: it starts when the rest is there
};

/// Kernel arguments: device addresses and plain numbers, nothing of the host.
struct Arguments {
  Call call;
  std::vector<std::array<Address, 3>> entries;  // A, B, C of each batch entry, in the order the call names them
  Layout a, b, c;                               // offset and entry step are in the addresses already
  Address workspace = 0;
  std::int64_t slices = 1;  // 1: direct, no workspace
  bool tf32 = false, dirty = false;
};

class Kernel {
 public:
  Kernel(const Arena& memory, const Arguments& arguments) : memory_(memory), arg_(arguments) {}

  void run() {
    for (const auto& [a, b, c] : arg_.entries) entry(a, b, c);
  }

 private:
  std::vector<float> read(Address at, const Layout& step, std::int64_t rows, std::int64_t columns, DType t) const {
    const std::vector<double> wide = read_matrix(t, span(at, step, rows, columns, t), step, 0, rows, columns);
    return {wide.begin(), wide.end()};
  }
  std::byte* span(Address at, const Layout& step, std::int64_t rows, std::int64_t columns, DType t) const {
    if (rows == 0 || columns == 0) return nullptr;  // an empty matrix may lie anywhere
    return memory_.at(at, static_cast<std::size_t>(step.at(0, rows - 1, columns - 1) + 1) * size_bytes(t));
  }

  void entry(Address a_at, Address b_at, Address c_at) {
    const auto [m, n, k] = std::array{arg_.call.m, arg_.call.n, arg_.call.k};
    const DType in = arg_.call.in, out = arg_.call.out;
    std::vector<float> a, b, sum(static_cast<std::size_t>(m * n), 0.0F);
    if (reads_ab(arg_.call)) {
      a = read(a_at, arg_.a, m, k, in);
      b = read(b_at, arg_.b, k, n, in);
      for (std::vector<float>* operand : {&a, &b})
        if (arg_.tf32)
          for (float& x : *operand) x = static_cast<float>(tf32_toward_zero(x));
      if (arg_.slices == 1)
        add_products(a.data(), b.data(), sum.data(), m, n, k, 0, k);
      else
        split(a, b, sum);
    }
    std::byte* c = span(c_at, arg_.c, m, n, out);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        std::byte* at = element(out, c, arg_.c.at(0, i, j));
        const double addend = reads_c(arg_.call) ? decode(out, load_bits(out, at)) : 0.0;
        store_bits(out, at, encode(out, scaled(arg_.call, sum[static_cast<std::size_t>(i * n + j)], addend)));
      }
  }

  /// Each slice of k leaves its partial sums in the workspace; they are added in order.
  void split(const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& sum) {
    const auto [m, n, k] = std::array{arg_.call.m, arg_.call.n, arg_.call.k};
    const std::size_t bytes = sum.size() * sizeof(float);
    std::vector<float> part(sum.size());
    for (std::int64_t s = 0; s < arg_.slices; ++s) {
      std::byte* const slice = memory_.at(arg_.workspace + static_cast<std::size_t>(s) * bytes, bytes);
      if (!arg_.dirty) std::memset(slice, 0, bytes);
      std::memcpy(part.data(), slice, bytes);
      add_products(a.data(), b.data(), part.data(), m, n, k, k * s / arg_.slices, k * (s + 1) / arg_.slices);
      std::memcpy(slice, part.data(), bytes);
    }
    for (std::int64_t s = 0; s < arg_.slices; ++s) {
      std::memcpy(part.data(), memory_.at(arg_.workspace + static_cast<std::size_t>(s) * bytes, bytes), bytes);
      for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += part[e];
    }
  }

  const Arena& memory_;
  const Arguments& arg_;
};

constexpr std::size_t guard_bytes = 256;
constexpr std::byte guard_byte{0x5A};
constexpr std::int64_t split_slices = 4;

std::size_t storage_bytes(const Operand& o) {
  return static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype);
}

class SimulatedCall final : public assay::Call {
 public:
  SimulatedCall(const Problem& p, const std::string& variant) : problem_(p), variant_(variant), memory_(arena_bytes(p)) {
    check_context("allocating");
    for (std::size_t i = 0; i < 3; ++i) buffer_[i] = memory_.allocate(storage_bytes(p.operands[i]));
    workspace_ = memory_.allocate(workspace_bytes(p) + 2 * guard_bytes) + guard_bytes;
    arguments_ = arguments();
  }

  void load(Images images) override {
    check_context("copying to the device");
    for (std::size_t i = 0; i < 3; ++i)
      if (images[i].bytes > 0) std::memcpy(memory_.at(buffer_[i], images[i].bytes), images[i].storage, images[i].bytes);
    // 0xFF bytes are NaN in every format: whoever reads the workspace before writing it shows.
    std::memset(memory_.at(workspace_, workspace_bytes(problem_)), 0xFF, workspace_bytes(problem_));
    for (Address guard : {workspace_ - guard_bytes, workspace_ + workspace_bytes(problem_)})
      std::memset(memory_.at(guard, guard_bytes), static_cast<int>(guard_byte), guard_bytes);
  }

  void execute() override {
    check_context("launching");
    if (variant_ == "launch_failure") throw DeviceError("simulated device: launch failed: too many resources requested");
    queue_.push([this] {
      if (variant_ == "hang")
        while (true) pause();
      if (variant_ == "late_error") memory_.at(address_tag + (Address{1} << 40), 1);
      Kernel(memory_, arguments_).run();
      finished_ = true;
    });
  }

  void store(Images images) override {
    queue_.synchronize();
    check_context("copying from the device");
    check_workspace_guards();
    for (std::size_t i = 0; i < 3; ++i)
      if (images[i].bytes > 0) std::memcpy(images[i].storage, memory_.at(buffer_[i], images[i].bytes), images[i].bytes);
    if (variant_ == "copy_fault") spoil_one_byte(images[2]);
  }

  CallReport report() override {
    if (!finished_)
      throw std::logic_error("simulated device: the algorithm is chosen when the call runs; report() follows store()");
    const bool split = arguments_.slices > 1;
    return {.arithmetic = {.operand = arguments_.call.in,
                           .splits = static_cast<int>(arguments_.slices),
                           .output = arguments_.call.out},
            .contract = full_contract("sim"),
            .algorithm = split ? "split_k" : "direct",
            .facts = {{"device", "simulated"}, {"workspace", fmt::format("{} bytes", split ? workspace_bytes(problem_) : 0)}}};
  }

 private:
  static std::size_t workspace_bytes(const Problem& p) {
    const gemm::Call c = call_of(p);
    return static_cast<std::size_t>(split_slices * c.m * c.n) * sizeof(float);
  }
  static std::size_t arena_bytes(const Problem& p) {
    std::size_t bytes = workspace_bytes(p) + 2 * guard_bytes;
    for (const Operand& o : p.operands) bytes += storage_bytes(o);
    return bytes;
  }

  Arguments arguments() const {
    Arguments arg{.call = call_of(problem_), .entries = {}, .a = {}, .b = {}, .c = {}};
    const gemm::Call& c = arg.call;
    arg.a = layout_a(c, problem_), arg.b = layout_b(c, problem_), arg.c = layout_c(c, problem_);
    for (std::int64_t i = 0; i < c.batch; ++i) {
      const std::int64_t e = c.pointer_array ? pointer_order(i, c.batch) : i;
      const auto address = [&](std::size_t operand, const Layout& at, DType t) {
        return buffer_[operand] + static_cast<Address>(at.at(e, 0, 0)) * size_bytes(t);
      };
      arg.entries.push_back({address(0, arg.a, c.in), address(1, arg.b, c.in), address(2, arg.c, c.out)});
    }
    arg.a.offset = arg.b.offset = arg.c.offset = 0;
    arg.workspace = workspace_;
    // Few outputs and a long k: too few tiles to fill a machine, so k is cut.
    if ((c.k >= 128 && c.m * c.n <= 4096) || variant_ == "workspace_dirty") arg.slices = split_slices;
    arg.tf32 = variant_ == "late_wrong";
    arg.dirty = variant_ == "workspace_dirty";
    return arg;
  }

  void check_workspace_guards() const {
    for (Address guard : {workspace_ - guard_bytes, workspace_ + workspace_bytes(problem_)}) {
      const std::byte* at = memory_.at(guard, guard_bytes);
      for (std::size_t i = 0; i < guard_bytes; ++i)
        if (at[i] != guard_byte) throw DeviceError("simulated device: the guard around the workspace was overwritten");
    }
  }

  /// Byte 2 of an fp32 element: top of the fraction.
  void spoil_one_byte(const Image& c) const {
    const Operand& o = problem_.operands[2];
    if (element_count(o) == 0) return;
    const auto e = static_cast<std::int64_t>(philox_element(problem_.seed, 0x51A, 0)[0]) % element_count(o);
    c.storage[storage_index(o, e) * 4 + 2] ^= std::byte{0x40};
  }

  Problem problem_;
  std::string variant_;
  Arena memory_;
  std::array<Address, 3> buffer_{};
  Address workspace_ = 0;
  Arguments arguments_;
  std::atomic<bool> finished_ = false;
  Queue queue_;  // last: its thread ends before the memory it works on goes
};

std::optional<std::string> refuses(const Problem& p, const TargetSpec& spec) {
  if (std::find(variants.begin(), variants.end(), spec.variant) == variants.end()) {
    std::string known;
    for (const std::string_view v : variants)
      if (!v.empty()) known += fmt::format("{}{}", known.empty() ? "" : ", ", v);
    return fmt::format("target sim has no variant \"{}\"; use sim, or sim:NAME with NAME one of {}", spec.variant, known);
  }
  if (call_of(p).has_epilogue()) return "the simulated device's gemm adds no bias and applies no function";
  const DType in = p.operands[0].dtype, out = p.operands[2].dtype;
  if (out != DType::f32 || (in != DType::f32 && in != DType::bf16))
    return fmt::format("the simulated device computes f32 and bf16>f32, not {}", p.formats);
  return std::nullopt;
}

}  // namespace

Target simulated_target() {
  return {.name = "sim",
          .summary = "a simulated device: own address space, asynchronous queue, workspace, late errors (sim:late_error, ...)",
          .refuses = refuses,
          .prepare = [](const Problem& p, const TargetSpec& spec) -> std::unique_ptr<assay::Call> {
            if (const auto reason = refuses(p, spec)) throw Unsupported(*reason);
            return std::make_unique<SimulatedCall>(p, spec.variant);
          },
          .variants = {variants.begin(), variants.end()}};
}

}  // namespace assay::gemm
