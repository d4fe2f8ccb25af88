// SPDX-License-Identifier: Apache-2.0
// One implementation under test. What fits the test target (own address space, queue, late errors) fits a GPU.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "probes/ops/problem.hpp"
#include "reference/arithmetic.hpp"

namespace assay {

/// The library says no for this problem (shape, format): what() is its reason.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// No device, driver, library, memory or instruction-set level: what() says which and what to do.
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Host storage of one operand, exactly storage_elements(operand) long; what lies around it is guard.
struct Image {
  std::byte* storage = nullptr;
  std::size_t bytes = 0;
};
using Images = std::span<const Image>;

/// Known only after the call: libraries choose late.
struct CallReport {
  Arithmetic arithmetic;
  Contract contract;
  std::string algorithm;                     // empty when the library does not say
  std::map<std::string, std::string> facts;  // "core": "SkylakeX", "threads": "2", "version": "OpenBLAS 0.3.21"
  std::int64_t bytes_outside = 0;            // changed in guards that only the target can see, those of device memory
  std::string outside{};                     // where: "after the end of Y, on the device"
  std::string plan{};                        // JSON text of the plan or algorithm that was chosen, where the library has one
};

/// One prepared call, executed several times with different data. load -> execute -> store, in this order.
struct Call {
  virtual ~Call() = default;
  /// Brings the host images into the target's address space (nothing to do for a CPU library). Whole allocations move.
  virtual void load(Images) = 0;
  /// Starts the operation; may return before it is finished.
  virtual void execute() = 0;
  /// Waits, then brings every image back, inputs too. An error of the asynchronous part surfaces here, as an exception.
  virtual void store(Images) = 0;
  virtual CallReport report() = 0;
};

/// Where a target's code comes from and under which conditions its worker is started. Plain data; travels to the worker.
struct TargetSpec {
  std::string target;                              // "openblas", "eigen", "planted", "model"
  std::string variant;                             // "", "core=Haswell", "threads=1", a fault or model name
  std::string library;                             // absolute path, empty when the code is in this binary
  std::map<std::string, std::string> set{};        // further files it works with, by role: "cuda", "nvrtc", "ptxas"
  int device = -1;                                 // ordinal of the GPU it runs on; -1: none
  std::map<std::string, std::string> environment;  // set in the worker before it starts; an empty value takes it out
  bool required = true;                            // named by the user or found as a default; ladder variants are not

  /// The GPU driver it runs on: of its set, else the library itself (our kernels have no other).
  const std::string& driver() const {
    const auto found = set.find("cuda");
    return found == set.end() ? library : found->second;
  }

  std::string name() const { return variant.empty() ? target : target + ":" + variant; }
};

/// Targets are values holding functions, so the runner is compiled once.
struct Target {
  std::string name;     // first part of TargetSpec::name
  std::string summary;  // one line for `assay list targets`
  /// Why this problem is outside the target, without touching any library; empty when it may be tried.
  std::function<std::optional<std::string>(const Problem&, const TargetSpec&)> refuses;
  /// In the worker: opens what it needs, returns the prepared call; throws Unsupported or Unavailable.
  std::function<std::unique_ptr<Call>(const Problem&, const TargetSpec&)> prepare;
  /// Variants that exist inside this binary ("h100", "zero_element"); library variants are found at run time instead.
  std::vector<std::string> variants{};
  /// Has a queue of its own: takes the cases that ask for more than a plain one (Problem::queue).
  bool on_device = false;
  std::string library_role{};  // of a target on a device: the file that it is, "cuda", "cublas", "cublasLt", "cudnn"
  std::vector<std::string> deep_variants{};  // further ones, which only `deep` and cases that were named try
};

}  // namespace assay
