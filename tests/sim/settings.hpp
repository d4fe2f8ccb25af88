// SPDX-License-Identifier: Apache-2.0
// What the environment asks of the simulated device. Anything it does not understand ends the process with a sentence, so
// that a mistyped fault can never make a test pass.
//   ASSAY_SIM_SM=120          compute capability times ten
//   ASSAY_SIM_MEMORY=BYTES    of device memory; 4 GiB
//   ASSAY_SIM_DRIVER=13000    what cuDriverGetVersion says; decides which PTX is too new
//   ASSAY_SIM_LOG=FILE        one line for every call
//   ASSAY_SIM_FAULT=NAME[:key=value]...[,NAME...]
// Keys narrow a fault down: sm=120, kernel=NAME (with * and ?), build=ptx or cubin, after=N (only after N good ones).
//   flush_subnormals          operands and results below the normal range of fp32 and fp64 count as zero
//   k_tail                    sums of two or more products lose the last: gemm k, the last tap of convolutions, attention d
//   drop_store                one store of 4 bytes (8 in fp64 kernels) does not reach memory
//   guard                     one element is written behind the end of the output, still inside its allocation
//   sticky                    the kernel does nothing but touch an illegal address: 700 at the next synchronise and ever after
//   late_error                the same, after it has done all its work
//   hang                      the kernel never ends
//   launch_fail[:code=N]      719; codes 1, 2 and 701 come from the launch itself, the others at the next synchronise for good
//   alloc_fail                allocations fail with 2
//   copy_flip                 one bit changes on the way to the host, somewhere else each time
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay::sim {

/// What a fault may depend on.
struct Circumstance {
  std::string_view kernel{}, build{};
  std::size_t before = 0;  // how often the same thing was done
};

struct Fault {
  std::string name;
  std::optional<int> sm, code;
  std::optional<std::size_t> after;
  std::string kernel, build;  // empty: any

  bool applies(int device_sm, const Circumstance&) const;
};

struct Settings {
  int sm = 120;
  std::size_t memory_bytes = std::size_t{4} << 30;
  int driver = 13000;
  std::string log;
  std::vector<Fault> faults;
};

/// Throws std::invalid_argument with one sentence.
std::vector<Fault> parse_faults(std::string_view);
/// Of this process, read once.
const Settings& settings();
/// The first fault of this name that applies here, or nullptr.
const Fault* fault(std::string_view name, const Circumstance& = {});

/// Appends "PID CALL: text -> code" to the log file, when there is one.
void log_call(std::string_view call, std::string_view text, int code);
/// To the log and to standard error.
void announce(std::string_view text);

}  // namespace assay::sim
