// oneTBB's parallel_scan: one line "dtype threads seconds" each. Arguments: the bytes of an array, and numbers of threads.
#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_scan.h>
#include <oneapi/tbb/task_arena.h>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

using Range = tbb::blocked_range<size_t>;
using Clock = std::chrono::steady_clock;

template <class T> void scan(const T* x, T* y, size_t n) {
  tbb::parallel_scan(Range(0, n), T(0), [=](const Range& r, T sum, bool final) {
    if (final) for (size_t i = r.begin(); i < r.end(); i++) y[i] = sum += x[i];
    else for (size_t i = r.begin(); i < r.end(); i++) sum += x[i];
    return sum;
  }, [](T a, T b) { return T(a + b); });
}

template <class T> void run(const char* name, size_t bytes, int threads) {
  size_t n = bytes / sizeof(T);
  std::vector<T> x(n), y(n);
  // Seven items sum to zero, so that all sums are exact, and the last tells whether the scan is one.
  for (size_t i = 0; i < n; i++) x[i] = T(int(i % 7) - 3);
  int left = n % 7;
  double least = 1e9;
  tbb::task_arena(threads).execute([&] {
    for (int turn = 0; turn < 15; turn++) {
      auto start = Clock::now();
      scan(x.data(), y.data(), n);
      least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
      if (y[n - 1] != T(left * (left - 7) / 2)) std::exit(1);
    }
  });
  std::printf("%s %d %.6f\n", name, threads, least);
}

int main(int count, char** words) {
  size_t bytes = std::strtoull(words[1], nullptr, 10);
  for (int k = 2; k < count; k++) {
    int threads = std::atoi(words[k]);
    run<float>("f4", bytes, threads);
    run<double>("f8", bytes, threads);
    run<int32_t>("i4", bytes, threads);
    run<int64_t>("i8", bytes, threads);
  }
}
