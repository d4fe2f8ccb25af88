// SPDX-License-Identifier: Apache-2.0
// How tests meet the simulated device: opened by path, with an environment, and closed again, so that each test gets a fresh
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "kernels/softmax.hpp"

namespace assay::sim_test {

using Address = unsigned long long;
using Handle = void*;
using Environment = std::initializer_list<std::pair<const char*, std::string>>;

/// The library, as the product opens it: dlopen by absolute path, every entry by its exported name.
class Library {
 public:
  explicit Library(Environment environment = {});
  ~Library();  // fails the test when the library stays loaded
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// nullptr when it is not exported.
  void* find(const char* name) const;

  template <class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    return reinterpret_cast<int (*)(Arguments...)>(entry(name))(arguments...);
  }

 private:
  void* entry(const char* name) const;
  void* handle_;
  std::vector<std::string> variables_;
};

/// A library with a current context.
class Device : public Library {
 public:
  explicit Device(Environment environment = {});

  Address allocate(std::size_t bytes) const;
  int upload(Address to, const void* from, std::size_t bytes, Handle stream = nullptr) const;
  int download(void* to, Address from, std::size_t bytes, Handle stream = nullptr) const;
  int synchronize() const { return call("cuCtxSynchronize"); }
  Handle stream(unsigned flags = 1) const;
  Handle event(unsigned flags = 0) const;

  /// cuModuleLoadDataEx; the module lands in `module`.
  int load(const void* image, Handle* module = nullptr) const;
  /// Loads an image and takes one entry of it; both must succeed.
  Handle function(const std::string& image, const char* name) const;

  template <class Args>
  int launch(Handle function, const kernels::Launch& l, const Args& args, Handle stream = nullptr) const {
    void* parameters[] = {const_cast<Args*>(&args)};
    return call("cuLaunchKernel", function, l.grid_x, l.grid_y, l.grid_z, l.block_x, l.block_y, l.block_z, l.shared_bytes,
                stream, static_cast<void**>(parameters), static_cast<void**>(nullptr));
  }
};

/// PTX text with these entries and no instructions: all that the simulated device reads.
std::string ptx(const std::string& version, const std::string& target, std::initializer_list<const char*> entries,
                std::size_t parameter_bytes = sizeof(kernels::SoftmaxArgs), const std::string& directives = "",
                const std::string& body = "");

/// An ELF file for machine 190 with one empty .text.NAME section each; registers > 0: its .nv.info says so of the first entry.
std::string cubin(unsigned flags, unsigned abi_version, std::initializer_list<const char*> entries, unsigned machine = 190,
                  unsigned registers = 0);

/// Entry softmax_online_f32 for every device from sm_80 on.
inline std::string softmax_image() {
  return ptx("7.0", "sm_80", {"softmax_online_f32", "softmax_two_pass_f32", "softmax_two_pass_bf16"});
}

/// A softmax of `rows` rows of `n` numbers on the device, and what the row must give.
struct Softmax {
  Softmax(const Device&, std::int64_t rows, std::int64_t n);

  kernels::SoftmaxArgs args() const;
  int upload(Handle stream = nullptr) const { return device.upload(x, in.data(), in.size() * 4, stream); }
  int launch(Handle function, Handle stream = nullptr) const;
  /// The output, brought back and waited for; the test fails when either fails.
  std::vector<float> result() const;
  /// How many elements are not within 1e-6 of the softmax in double precision.
  int wrong(const std::vector<float>& got) const;

  const Device& device;
  std::int64_t rows, n;
  std::vector<float> in;
  Address x, y;
};

/// Runs in a child process of its own; the status that waitpid gives. Ends it after 10 s.
int status_in_child(void (*body)());

}  // namespace assay::sim_test
