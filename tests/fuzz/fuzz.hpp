// SPDX-License-Identifier: Apache-2.0
// A small deterministic mutation fuzzer: corpus files first, then mutations of them until the time is up.
// The sanitizers find memory errors; a parser may throw its documented exception and nothing else; a target checks its own
// invariants with require(). A finding is written beside the program and replayed by naming that file.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

extern "C" void __sanitizer_set_death_callback(void (*)()) __attribute__((weak));

// An absurd size must be refused before memory is taken: one allocation above 512 MiB is a finding.
extern "C" const char* __asan_default_options() {
  return "max_allocation_size_mb=512:allocator_may_return_null=0:detect_leaks=1";
}

namespace fuzz {

struct BrokenInvariant : std::logic_error {
  using std::logic_error::logic_error;
};

inline void require(bool good, const std::string& what) {
  if (!good) throw BrokenInvariant(what);
}

/// A message for a user: one printable line of bounded length.
inline void require_sentence(std::string_view message) {
  require(!message.empty() && message.size() < 4096, "message of length " + std::to_string(message.size()));
  for (unsigned char c : message) require(c >= ' ' && c != 0x7f, "control character in the message: " + std::string(message));
}

struct Target {
  void (*one)(std::string_view input);       // throws what it must not throw
  std::vector<std::string_view> dictionary;  // words that mutations insert
};

namespace detail {

inline std::string current;  // the input in flight, for the crash handlers
inline std::string finding_path = "fuzz-finding";

inline void save_current() {
  const int fd = ::open(finding_path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (fd < 0) return;
  if (::write(fd, current.data(), current.size()) < 0) return;
  ::close(fd);
  constexpr std::string_view note = "fuzz: the input was saved; replay it by naming the file\n";
  if (::write(STDERR_FILENO, note.data(), note.size()) < 0) return;
}

inline void on_signal(int signal) {
  save_current();
  const std::string_view what = signal == SIGALRM ? "fuzz: one input took more than 10 s\n" : "fuzz: the parser crashed\n";
  if (::write(STDERR_FILENO, what.data(), what.size()) < 0) _exit(3);
  _exit(3);
}

/// splitmix64 (Steele, Lea, Flood, OOPSLA 2014): any seed is a good seed.
struct Random {
  std::uint64_t state;
  std::uint64_t word() {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t n) { return n ? static_cast<std::size_t>(word() % n) : 0; }
};

inline void mutate(std::string& text, const std::vector<std::string>& corpus, const Target& target, Random& random) {
  constexpr std::size_t longest = 1 << 16;
  const auto at = [&] { return random.below(text.size() + 1); };
  const auto span = [&](std::size_t from) { return std::min(text.size() - from, random.below(random.below(4) ? 8 : 256)); };
  switch (random.below(11)) {
    case 0:  // flip one bit
      if (!text.empty()) text[random.below(text.size())] ^= static_cast<char>(1 << random.below(8));
      break;
    case 1:  // any byte
      if (!text.empty()) text[random.below(text.size())] = static_cast<char>(random.word());
      break;
    case 2:  // an integer at the edge of its type, little-endian, as binary formats hold them
      if (text.size() >= 8) {
        constexpr std::uint64_t edges[] = {0,
                                           1,
                                           0x7f,
                                           0xff,
                                           0x7fff,
                                           0xffff,
                                           0x7fffffff,
                                           0x80000000,
                                           0xffffffff,
                                           0x7fffffffffffffff,
                                           0x8000000000000000,
                                           0xffffffffffffffff,
                                           0xfffffffffffffff8};
        const std::uint64_t edge = edges[random.below(std::size(edges))];
        std::memcpy(text.data() + random.below(text.size() - 7), &edge, std::size_t{1} << random.below(4));
      }
      break;
    case 3: {  // remove a piece
      const std::size_t from = at();
      text.erase(from, span(from));
      break;
    }
    case 4: {  // repeat a piece
      const std::size_t from = at();
      const std::string piece = text.substr(from, span(from));
      text.insert(at(), piece);
      break;
    }
    case 5:  // insert any bytes
      for (std::size_t n = 1 + random.below(8); n; --n)
        text.insert(text.begin() + static_cast<std::ptrdiff_t>(at()), static_cast<char>(random.word()));
      break;
    case 6:  // insert printable bytes
      for (std::size_t n = 1 + random.below(8); n; --n)
        text.insert(text.begin() + static_cast<std::ptrdiff_t>(at()), static_cast<char>(' ' + random.below(95)));
      break;
    case 7:  // insert a word
      if (!target.dictionary.empty()) text.insert(at(), target.dictionary[random.below(target.dictionary.size())]);
      break;
    case 8: {  // splice with another corpus file
      const std::string& other = corpus[random.below(corpus.size())];
      text = text.substr(0, at()) + other.substr(random.below(other.size() + 1));
      break;
    }
    case 9:  // cut off
      text.resize(at());
      break;
    case 10: {  // change a digit, or make a number long
      const auto digit = text.find_first_of("0123456789", at());
      if (digit == text.npos) break;
      if (random.below(4))
        text[digit] = static_cast<char>('0' + random.below(10));
      else
        text.insert(digit, std::string(1 + random.below(24), static_cast<char>('0' + random.below(10))));
      break;
    }
  }
  if (text.size() > longest) text.resize(longest);
}

/// Runs one input; prints what it must not do and returns false.
inline bool run_one(const Target& target, const std::string& input) {
  current = input;
  alarm(10);
  try {
    // A copy of exactly this size on the heap: a read past the end meets the sanitizer's red zone.
    const std::vector<char> exact(input.begin(), input.end());
    target.one({exact.data(), exact.size()});
    return true;
  } catch (const BrokenInvariant& error) {
    std::fprintf(stderr, "fuzz: broken invariant: %s\n", error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz: unexpected exception: %s\n", error.what());
  } catch (...) {
    std::fprintf(stderr, "fuzz: unexpected exception of unknown type\n");
  }
  save_current();
  return false;
}

inline std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace detail

/// PROGRAM SECONDS CORPUS [SEED]: the corpus (a folder, or one file to replay), then mutations for SECONDS.
inline int run(int argc, char** argv, const Target& target) {
  using namespace detail;
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s SECONDS CORPUS [SEED]\n", argv[0]);
    return 2;
  }
  const double seconds = std::atof(argv[1]);
  const std::uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 0) : 1;
  finding_path = std::filesystem::path(argv[0]).filename().string() + ".finding";
  if (__sanitizer_set_death_callback)
    __sanitizer_set_death_callback(save_current);
  else
    std::signal(SIGSEGV, on_signal), std::signal(SIGABRT, on_signal), std::signal(SIGFPE, on_signal);
  std::signal(SIGALRM, on_signal);

  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(argv[2])) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[2])) files.push_back(entry.path());
  } else {
    files.push_back(argv[2]);
  }
  std::sort(files.begin(), files.end());  // directory order differs between machines
  std::vector<std::string> corpus;
  for (const auto& file : files) {
    corpus.push_back(read(file));
    if (run_one(target, corpus.back())) continue;
    std::fprintf(stderr, "fuzz: that was %s\n", file.c_str());
    return 1;
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "fuzz: %s holds no file, expected a corpus\n", argv[2]);
    return 2;
  }

  Random random{seed};
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::uint64_t inputs = 0;
  for (; std::chrono::steady_clock::now() < end; ++inputs) {
    std::string text = corpus[random.below(corpus.size())];
    for (std::size_t n = 1 + random.below(6); n; --n) mutate(text, corpus, target, random);
    if (!run_one(target, text)) {
      std::fprintf(stderr, "fuzz: that was mutation %llu of seed %llu\n", static_cast<unsigned long long>(inputs),
                   static_cast<unsigned long long>(seed));
      return 1;
    }
  }
  std::printf("%zu corpus files and %llu mutations of seed %llu: nothing found\n", corpus.size(),
              static_cast<unsigned long long>(inputs), static_cast<unsigned long long>(seed));
  return 0;
}

}  // namespace fuzz

// UBSan ends the program without ASan's death callback, but tells this function of its report first.
extern "C" void __ubsan_on_report() {
  fuzz::detail::save_current();
}
