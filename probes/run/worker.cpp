// SPDX-License-Identifier: Apache-2.0
// Inside the worker: prepares, calls, reports. Judges nothing.
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <barrier>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "probes/library/cuda.hpp"
#include "probes/library/cuda_libraries.hpp"
#include "probes/library/library.hpp"
#include "probes/library/nvrtc.hpp"
#include "probes/library/onednn.hpp"
#include "probes/ops/op.hpp"
#include "probes/run/arena.hpp"
#include "probes/run/plan.hpp"
#include "probes/run/process.hpp"
#include "probes/run/protocol.hpp"

namespace assay {

namespace {

/// glibc checks its bookkeeping as it allocates, and all of it as it trims: damage shows at the case that did it, not some
/// cases later.
void check_heap(bool whole) {
  for (std::size_t n : {24, 100, 1000, 5000, 70000, 200000}) {
    void* volatile p = std::malloc(n);
    std::free(p);
  }
  if (whole) malloc_trim(0);
}

/// A library that takes all memory must fail alone, not drag the machine into swap.
void limit_memory() {
#ifndef __SANITIZE_ADDRESS__  // which reserves terabytes
  const rlim_t physical = static_cast<rlim_t>(sysconf(_SC_PHYS_PAGES)) * page_bytes;
  const rlimit l{physical, physical};
  setrlimit(RLIMIT_DATA, &l);
#endif
}

const Target& find_target(const Op& op, const std::string& name) {
  for (const Target& t : op.targets)
    if (t.name == name) return t;
  throw Unavailable("this operation has no target " + name);
}

/// One prepared case: `callers` calls, each with its own images.
class Session {
 public:
  explicit Session(const PrepareRequest& r) : problem_(make_problem(r.case_id)), spec_(r.target) {
    for (const Region& region : r.regions) regions_.emplace_back(worker_arena_fd, region);
    for (const MappedRegion& region : regions_) images_.push_back(region.image());
    const Target& target = find_target(find_op(problem_.id.op), r.target.target);
    on_device_ = target.on_device;
    for (std::int64_t i = 0; i < problem_.callers; ++i) calls_.push_back(target.prepare(problem_, spec_));
  }

  /// Everything a caller sees as the call: data in, operation, data out. Returns the milliseconds of the operation itself.
  double execute() {
    if (calls_.size() == 1) return run_one(0, [] {});
    std::barrier start(static_cast<std::ptrdiff_t>(calls_.size()));
    std::vector<double> ms(calls_.size());
    std::vector<std::exception_ptr> errors(calls_.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < calls_.size(); ++i)
      threads.emplace_back([&, i] {
        bool arrived = false;
        try {
          ms[i] = run_one(i, [&] {
            arrived = true;
            start.arrive_and_wait();
          });
        } catch (...) {
          errors[i] = std::current_exception();
          if (!arrived) start.arrive_and_drop();
        }
      });
    for (std::thread& t : threads) t.join();
    for (const std::exception_ptr& e : errors)
      if (e) std::rethrow_exception(e);
    return *std::max_element(ms.begin(), ms.end());
  }

  CallReport report() { return calls_.front()->report(); }
  /// What a call on a device can say before it runs: a record of its fault needs compiler and image. A library on the CPU
  /// chooses later.
  std::optional<CallReport> early_report() { return on_device_ ? std::optional(report()) : std::nullopt; }

 private:
  template <class Ready>
  double run_one(std::size_t i, Ready ready) {
    const std::size_t n = problem_.operands.size();
    const Images images = Images(images_).subspan(i * n, n);
    calls_[i]->load(images);
    ready();
    const auto begin = std::chrono::steady_clock::now();
    calls_[i]->execute();
    calls_[i]->store(images);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }

  Problem problem_;
  TargetSpec spec_;
  bool on_device_ = false;
  std::vector<MappedRegion> regions_;
  std::vector<Image> images_;
  std::vector<std::unique_ptr<Call>> calls_;
};

/// For `assay env` and the start of a run: opens a set as a GPU worker would and says what was mapped. What cannot be opened
/// becomes a complaint, the rest goes on. Digests are left out: hashing a cuBLASLt takes seconds.
void open_set(const std::map<std::string, std::string>& files, Reply& r) {
  const auto trying = [&](const std::string& role, auto open) {
    if (const auto file = files.find(role); file != files.end()) try {
        open(file->second);
      } catch (const std::exception& e) {
        r.complaints.push_back(e.what());
      }
  };
  trying("cuda", [&](const std::string& path) {
    const cuda::Driver& driver = cuda::Driver::open(path);
    const nvml::Nvml* nvml = nullptr;
    trying("nvml", [&](const std::string& p) { nvml = &nvml::Nvml::open(p); });
    for (int i = 0; i < cuda::device_count(driver); ++i) r.gpus.push_back(cuda::describe_device(driver, i, nvml));
  });
  trying("nvrtc", [](const std::string& path) { nvrtc::Nvrtc::open(path); });
  trying("onednn", [](const std::string& path) { onednn::Library::open(path); });
  for (const char* const family : {"openblas", "blis", "mkl"})
    trying(family, [](const std::string& path) { Cblas::open(path); });
  try {
    cuda::open_libraries(files);
  } catch (const LibraryError& e) {
    r.complaints.push_back(e.what());
  }
  r.libraries = mapped_libraries(false);
}

/// Runs `body`, turns what it throws into the kind of reply it means, and notes the floating-point control around it.
template <class Body>
Reply guarded(Body body) {
  Reply reply;
  reply.before = read_float_control();
  const auto failed = [&](ReplyKind kind, const char* reason) { reply.kind = kind, reply.reason = reason; };
  try {
    body(reply);
  } catch (const Unsupported& e) {
    failed(ReplyKind::unsupported, e.what());
  } catch (const Unavailable& e) {
    failed(ReplyKind::unavailable, e.what());
  } catch (const LibraryError& e) {
    failed(ReplyKind::unavailable, e.what());
  } catch (const cuda::Error& e) {
    failed(e.status == cuda::CUDA_ERROR_OUT_OF_MEMORY ? ReplyKind::no_memory : ReplyKind::error, e.what());
  } catch (const std::bad_alloc&) {
    failed(ReplyKind::error, "the call ran out of memory");
  } catch (const std::exception& e) {
    failed(ReplyKind::error, e.what());
  }
  reply.after = read_float_control();
  write_float_control(reply.before);
  return reply;
}

}  // namespace

int worker_main() {
  mallopt(M_PERTURB, 0xA5);  // neither fresh nor freed heap memory reads as zero
  limit_memory();
  std::unique_ptr<Session> session;
  std::vector<report::LibraryIdentity> known;
  while (const std::optional<std::string> text = receive_message(worker_socket_fd)) {
    const nlohmann::json request = nlohmann::json::parse(*text);
    const std::string& what = request.at("do").get_ref<const std::string&>();
    const Reply reply = guarded([&](Reply& r) {
      if (what == "prepare") {
        session.reset();
        session = std::make_unique<Session>(prepare_from_json(request));
        r.report = session->early_report();
      } else if (what == "execute") {
        if (!session) throw std::logic_error("execute before prepare");
        r.execute_ms = session->execute();
        r.report = session->report();
        check_heap(false);
      } else if (what == "release") {
        session.reset();
        check_heap(true);
      } else if (what == "devices") {
        r.devices = cuda::describe_devices(cuda::Driver::open(request.at("driver")));
      } else if (what == "open") {
        open_set(request.at("files").get<std::map<std::string, std::string>>(), r);
      } else if (what == "plan") {
        r.plan = plan_case(plan_set_from_json(request.at("set")), request.at("case")).dump();
      } else if (what == "libraries") {
        std::vector<report::LibraryIdentity> now = mapped_libraries();
        if (now.size() != known.size()) r.libraries = known = std::move(now);
      }
    });
    if (!send_message(worker_socket_fd, to_json(reply).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))) break;
  }
  _exit(0);  // a library's exit handlers may hang or crash: nothing of ours depends on them
}

}  // namespace assay
